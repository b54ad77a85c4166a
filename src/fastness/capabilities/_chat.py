"""
The words of a service that speaks OpenAI's chat completions: requests as it takes them, and what it answers.

What it says is not believed: texts are bounded, numbers are looked at, and what else there is is left where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fastness.errors import AdapterError

__all__ = ["FINISHES", "Counted", "Piece", "most_tokens", "piece_of", "reply_of", "request_of"]

#: Why an answer ends, as a guest is told; anything else is ``other``.
FINISHES = ("stop", "length", "content_filter")
#: Tokens that a message takes beside its text, at most, and a conversation beside its messages.
_BESIDE, _AROUND = 16, 64
#: No vocabulary has tokens that stand for more bytes than this, on average of a text.
_BYTES_OF_TOKEN = 128
_MOST_TOKENS = 1 << 40


class _Text(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Text | None = None
    delta: _Text | None = None
    finish_reason: str | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] = []
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class Counted(msgspec.Struct, frozen=True):
    """Tokens as the service counted them."""

    tokens_in: int
    tokens_out: int

    def fits(self, size: int) -> bool:
        """Whether so many can have been an answer of ``size`` bytes, and a question at all."""
        return self.tokens_in > 0 and self.tokens_out * _BYTES_OF_TOKEN >= size


class Piece(msgspec.Struct, frozen=True):
    """What came: text, why it ends where it does, and tokens where they were counted."""

    text: str = ""
    finish: str = ""
    counted: Counted | None = None


_decode = msgspec.json.Decoder(_Reply).decode
_decode_usage = msgspec.json.Decoder(_Usage).decode


def most_tokens(messages: Sequence[tuple[str, str]]) -> int:
    """The most tokens that messages can be: no vocabulary has one that stands for less than a byte."""
    return _AROUND + sum(_BESIDE + len(text.encode("utf-8", "surrogatepass")) for _, text in messages)


def request_of(
    model: str,
    messages: Sequence[tuple[str, str]],
    *,
    limit: str,
    max_tokens: int,
    temperature: float | None,
    stop: Sequence[str],
    stream: bool,
) -> bytes:
    """The body of a request.  Raises UnicodeEncodeError for texts that UTF-8 does not have."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": role, "content": text} for role, text in messages],
        limit: max_tokens,
        "n": 1,
        "stream": stream,
    }
    if temperature is not None:
        body["temperature"] = temperature
    if stop:
        body["stop"] = list(stop)
    if stream:
        body["stream_options"] = {"include_usage": True}
    return msgspec.json.encode(body)


def reply_of(data: bytes) -> Piece:
    """A whole answer.  Raises AdapterError where it is none."""
    reply = _reply(data)
    if not reply.choices or reply.choices[0].message is None:
        raise AdapterError("the answer of the model's service has no message")
    return _piece(reply, reply.choices[0].message)


def piece_of(data: bytes) -> Piece:
    """One event of an answer that comes in pieces; its last one may have no text.  Raises AdapterError."""
    reply = _reply(data)
    return _piece(reply, reply.choices[0].delta if reply.choices else None)


def _reply(data: bytes) -> _Reply:
    try:
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise AdapterError("the answer of the model's service cannot be read") from None


def _piece(reply: _Reply, text: _Text | None) -> Piece:
    finish = reply.choices[0].finish_reason if reply.choices else None
    known = "" if finish is None else finish if finish in FINISHES else "other"
    return Piece((text.content if text is not None else None) or "", known, _counted(reply.usage))


def _counted(usage: msgspec.Raw) -> Counted | None:
    """Tokens, where there are two numbers that can be tokens."""
    try:
        found = _decode_usage(usage)
    except (msgspec.MsgspecError, RecursionError):
        return None
    numbers = (found.prompt_tokens, found.completion_tokens)
    return Counted(*numbers) if all(0 <= number <= _MOST_TOKENS for number in numbers) else None
