"""
An answer of a model that is read as it comes, by calls of the run that asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastness.capabilities import _chat
from fastness.capabilities._http import Begun, told
from fastness.capabilities._sse import Events
from fastness.errors import AdapterError

if TYPE_CHECKING:
    from fastness.capabilities._llm_asking import Asking, Question
    from fastness.capabilities._llm_budget import Charge
    from fastness.capability import CallContext

__all__ = ["Stream"]

#: Pieces beside two for each token that was asked for.
_PIECES = 10_000
#: Bytes of text that a token may stand for, at most.
_BYTES_OF_TOKEN = 128
_DONE = b"[DONE]"


class Stream:
    """``fastness.capability.Opened``.  One call at a time may read it."""

    capability = "llm"

    def __init__(self, begun: Begun, charge: Charge, question: Question, asking: Asking) -> None:
        self.target = question.tier
        self._begun = begun
        self._charge = charge
        self._asking = asking
        self._most = question.max_tokens * _BYTES_OF_TOKEN
        self._pieces = begun.pieces(_PIECES + 2 * question.max_tokens)
        self._events = Events()
        self._size = 0
        #: Text that came and is not given yet: its end may be the beginning of a credential.
        self._kept = ""
        self._finish = ""
        self._counted: _chat.Counted | None = None
        self._reading = False
        #: Whether its last text was given, or it came to its end otherwise.
        self.over = False

    async def read(self, context: CallContext) -> dict[str, Any]:
        """The next text; with the last one what it cost.  Raises AdapterError."""
        if self._reading:
            raise AdapterError("another call reads this stream")
        if self.over:
            raise AdapterError("this stream has come to its end")
        self._reading = True
        try:
            return await self._read(context)
        except BaseException:
            # What was under way cannot be gone on with.
            context.cost = await self.end()
            raise
        finally:
            self._reading = False

    async def _read(self, context: CallContext) -> dict[str, Any]:
        ended = False
        while not ended:
            ended = await self._step()
            text = self._kept
            held = 0 if ended else self._asking.begun_in(text)
            text, self._kept = text[: len(text) - held], text[len(text) - held :]
            if text and not ended:
                break
        cleaned = await self._asking.clean(text)
        context.bytes_in = len(cleaned.encode("utf-8", "surrogatepass"))
        if not ended:
            return {"text": cleaned, "done": False}
        self._charge.counted(self._counted, self._size, context)
        context.cost = await self.end()
        counted = self._counted
        return {
            "text": cleaned,
            "done": True,
            "finish": self._finish,
            "tokens_in": counted.tokens_in if counted is not None else 0,
            "tokens_out": counted.tokens_out if counted is not None else 0,
            "cost": self._charge.cost / 1e9,
        }

    async def _step(self) -> bool:
        """Take what comes next; whether that was the end."""
        with told():
            piece = await anext(self._pieces, None)
        if piece is None:
            return True
        for data in self._events.feed(piece):
            if data == _DONE:
                return True
            came = _chat.piece_of(data)
            self._kept += came.text
            self._size += len(came.text.encode("utf-8", "surrogatepass"))
            self._finish = came.finish or self._finish
            self._counted = came.counted or self._counted
            if self._size > self._most:
                raise AdapterError("the answer is longer than was asked for")
        return False

    async def end(self) -> int:
        """End it, and say what it cost.  What was not read to its end costs all that was held."""
        first, self.over = not self.over, True
        self._charge.whole()
        if first:
            await self._begun.aclose()
            await self._pieces.aclose()
        return self._charge.cost if first else 0
