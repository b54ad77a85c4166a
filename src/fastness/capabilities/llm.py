"""
The capability ``llm``: questions to models, by price tier and within a budget that is held before it is spent.

A plugin names a tier and never a model, holds no credential, and hears of no address.  What it may spend is bounded for
each owner and day, whoever asks at once and whatever the service says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from fastness.capabilities import _chat
from fastness.capabilities._llm_asking import Asking, Question
from fastness.capabilities._llm_budget import Charge
from fastness.capabilities._llm_scope import LlmScope, exceeds, meet, risk
from fastness.capabilities._llm_settings import TIERS, Settings, Tier
from fastness.capability import CallContext, Operation, Spec
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.limits import MIB
from fastness.runs import DenialCode

if TYPE_CHECKING:
    from fastness.capabilities._llm_stream import Stream
    from fastness.metering.ledger import Ledger

__all__ = ["SPEC", "Llm", "LlmScope", "Settings"]

_MOST_MESSAGES = 256
_TEXT_MAX = 1 * MIB
#: Streams that a run may have open.
_STREAMS = 4
#: Under these names a run keeps the number of its last stream, and how many are being opened.
_LAST, _OPENING = "llm_streams", "llm_opening"

_Text = Annotated[str, msgspec.Meta(max_length=_TEXT_MAX)]
_Tokens = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
_Stops = Annotated[list[Annotated[str, msgspec.Meta(min_length=1, max_length=200)]], msgspec.Meta(max_length=4)]


def _finite(temperature: float | None) -> None:
    # Every comparison with what is no number is false, so no bound keeps it out.
    if temperature is not None and not math.isfinite(temperature):
        raise ValueError("temperature: a number")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: _Text


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``ask``: one question, and what the model is told before it."""

    prompt: _Text
    tier: Tier = "cheap"
    system: _Text = ""
    max_tokens: _Tokens | None = None
    temperature: _Temperature | None = None
    stop: _Stops = []

    def __post_init__(self) -> None:
        _finite(self.temperature)

    @property
    def messages(self) -> list[Message]:
        """The conversation that it is."""
        before = [Message("system", self.system)] if self.system else []
        return [*before, Message("user", self.prompt)]


class Chat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``chat`` and ``stream``: a conversation up to now."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1, max_length=_MOST_MESSAGES)]
    tier: Tier = "cheap"
    max_tokens: _Tokens | None = None
    temperature: _Temperature | None = None
    stop: _Stops = []

    def __post_init__(self) -> None:
        _finite(self.temperature)


class Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``read`` and ``close``: the number that ``stream`` gave."""

    stream: Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]


def _tier(given: Any) -> str:
    # Never a word of the conversation.
    return str(given.tier)


def _which(given: Which) -> str:
    return f"stream {given.stream}"


def _learn(calls: Sequence[tuple[str, Any]]) -> LlmScope:
    asked = [given for _, given in calls if not isinstance(given, Which)]
    tokens = [LlmScope().max_tokens if given.max_tokens is None else given.max_tokens for given in asked]
    # What a question costs is the operator's to say: a hundredth of a unit each is a guess to begin with.
    return LlmScope(
        tiers=tuple(sorted({given.tier for given in asked}, key=TIERS.index)),
        budget=len(asked) / 100,
        max_tokens=max(tokens, default=1),
    )


SPEC = Spec(
    kind="llm",
    scope=LlmScope,
    operations=(
        Operation(
            name="ask",
            arguments=Ask,
            target=_tier,
            summary="Ask a model; gives text, finish, tokens_in, tokens_out and cost.",
            leaves=True,
        ),
        Operation(
            name="chat",
            arguments=Chat,
            target=_tier,
            summary="The same with messages, each a dict with role and content.",
            leaves=True,
        ),
        Operation(
            name="stream",
            arguments=Chat,
            target=_tier,
            summary="The same, to be read as it comes; gives a number for read and close.",
            leaves=True,
        ),
        Operation(
            name="read",
            arguments=Which,
            target=_which,
            summary="The next text of a stream; with the last one done is True, and the rest is as ask gives it.",
        ),
        Operation(name="close", arguments=Which, target=_which, summary="End a stream; False where there is none."),
    ),
    meet=meet,
    exceeds=exceeds,
    risk=risk,
    learn=_learn,
    enforced=(
        "A plugin names a price tier and never a model; the operator says which model that is.",
        "The most that a question can cost is held, on disk, before it is sent, and counts as spent from then on.",
        "Budgets and quotas hold for all processes and runs together, since taking is one transaction.",
        "What a process held that died stays spent; so does what nobody knows the cost of.",
        "A service that counts more than was asked for, or less than it sent, costs what was held, and is noted.",
        "Tokens that go in are bounded by bytes: no vocabulary has a token that stands for less than one.",
        "The credential is the host's; it is removed from answers, as a whole also from those that come in pieces.",
        "The connection goes to a public address, or to the one that the operator named; no redirect is followed.",
        "Records name the tier and the cost, and no word of a question or an answer.",
        "A stream belongs to its run, and ends with it.",
    ),
)


class Llm:
    """
    The adapter of ``llm``: a service that speaks OpenAI's chat completions.

    ``ledger`` is where money is counted.  ``key`` is a file with the credential, in place of that of the settings; None
    sends none.  ``resolve`` gives the addresses of a name, in place of the system.  A call takes at most ``call_s``
    seconds, whatever its deadline.
    """

    spec = SPEC

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        *,
        key: str | None = None,
        resolve: Callable[[str], Any] | None = None,
        call_s: float = 120.0,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._asking = Asking(settings, key or settings.key, resolve)
        self._call_s = call_s

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Ask.  Raises Denied, QuotaExceeded and AdapterError."""
        scope: LlmScope = context.scope
        if self.spec.operation(operation) is None:
            raise Denied(DenialCode.UNSUPPORTED, operation)
        if not scope.tiers or not scope.most:
            raise Denied(DenialCode.NOT_GRANTED, "")
        import anyio

        try:
            with anyio.fail_after(max(0.0, min(self._call_s, context.deadline - time.monotonic()))):
                if operation == "read":
                    return await self._read(arguments, context)
                if operation == "close":
                    return await self._close(arguments, context)
                question, charge = self._question(arguments, context, stream=operation == "stream")
                if operation == "stream":
                    return await self._open(question, charge, context)
                return await self._whole(question, charge, context)
        except TimeoutError:
            raise AdapterError("no whole answer came in time") from None

    async def aclose(self) -> None:
        """Nothing is held but what runs have open, which they end."""

    def _question(self, given: Ask | Chat, context: CallContext, *, stream: bool) -> tuple[Question, Charge]:
        """What is to be sent, and the money for it.  Raises Denied, QuotaExceeded, AdapterError."""
        scope: LlmScope = context.scope
        if given.tier not in scope.tiers:
            raise Denied(DenialCode.NOT_GRANTED, given.tier)
        priced = self._settings.tiers.get(given.tier)
        if priced is None:
            raise Denied(DenialCode.NO_ADAPTER, given.tier)
        # With those that are being opened just now: any number of calls may be under way at once.
        if stream and len(context.opened) + context.spent.get(_OPENING, 0) >= _STREAMS:
            raise QuotaExceeded(f"a run may have {_STREAMS} streams open; read them to their end, or close them")
        most = min(scope.max_tokens, priced.max_tokens)
        wanted = min(most, 1024) if given.max_tokens is None else given.max_tokens
        if wanted > most:
            raise Denied(DenialCode.TOO_LARGE, f"{given.tier}: more than {most} tokens")
        messages = [(one.role, one.content) for one in given.messages]
        body = self._body(priced.model, messages, given, wanted, stream)
        context.bytes_out = sum(len(text.encode()) for _, text in messages)
        charge = Charge(self._ledger, context, given.tier, priced, _chat.most_tokens(messages), wanted)
        return Question(given.tier, body, wanted), charge

    def _body(
        self, model: str, messages: Sequence[tuple[str, str]], given: Ask | Chat, max_tokens: int, stream: bool
    ) -> bytes:
        try:
            return _chat.request_of(
                model,
                messages,
                limit=self._settings.limit,
                max_tokens=max_tokens,
                temperature=given.temperature,
                stop=given.stop,
                stream=stream,
            )
        except UnicodeEncodeError:
            raise Denied(DenialCode.UNSUPPORTED, "a text that UTF-8 does not have") from None

    async def _whole(self, question: Question, charge: Charge, context: CallContext) -> dict[str, Any]:
        try:
            answer = await self._asking.whole(question, charge, context)
            piece = _chat.reply_of(answer.body)
            text = await self._asking.clean(piece.text)
            size = len(piece.text.encode("utf-8", "surrogatepass"))
            charge.counted(piece.counted, size, context)
            context.bytes_in = size
        finally:
            # Where it was sent, and nobody knows what came of it.
            charge.whole()
            context.cost = charge.cost
        counted = piece.counted
        return {
            "text": text,
            "finish": piece.finish,
            "tokens_in": counted.tokens_in if counted is not None else 0,
            "tokens_out": counted.tokens_out if counted is not None else 0,
            "cost": charge.cost / 1e9,
        }

    # streams

    async def _open(self, question: Question, charge: Charge, context: CallContext) -> int:
        # Nothing is waited for between the look at what is open and this.
        context.spent[_OPENING] = context.spent.get(_OPENING, 0) + 1
        try:
            stream = await self._asking.open(question, charge, context)
        finally:
            context.spent[_OPENING] -= 1
        number = context.spent.get(_LAST, 0) + 1
        context.spent[_LAST] = number
        context.opened[number] = stream
        return number

    async def _read(self, given: Which, context: CallContext) -> dict[str, Any]:
        found: Any = context.opened.get(given.stream)
        if found is None:
            raise Denied(DenialCode.ABSENT, _which(given))
        stream: Stream = found
        try:
            return await stream.read(context)
        finally:
            if stream.over:
                context.opened.pop(given.stream, None)

    async def _close(self, given: Which, context: CallContext) -> bool:
        found = context.opened.pop(given.stream, None)
        if found is None:
            return False
        context.cost = await found.end()
        return True
