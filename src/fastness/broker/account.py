"""
The account of one call: what it announced, what of that may have had an effect, and how it ended.

An outcome tells two things apart: what was refused before any effect, and what had an effect, or may have had one, and
whose answer was refused.  Work that nobody can stop has no outcome before it has come to rest: until then it counts as
under way, and as what may have its effect yet.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from fastness.broker.asked import TEXT_MAX
from fastness.broker.gate import Gate, Refused
from fastness.broker.trail import ANSWER, LATE, Intent, Trail
from fastness.capability import CallContext
from fastness.errors import BackendError, Denied
from fastness.runs import DenialCode

__all__ = ["Account", "told_of"]


def told_of(code: str, micros: int, context: CallContext) -> dict[str, Any]:
    """What is recorded of the end of a call."""
    told: dict[str, Any] = {"code": code, "micros": micros}
    told |= {"bytes_in": context.bytes_in, "bytes_out": context.bytes_out}
    # A trail of somebody else's need not know what costs are, or dropped fields, as long as there are none.
    if context.cost:
        told["cost"] = context.cost
    if context.dropped:
        told["dropped"] = context.dropped
    return told


class Account:
    """Of the call that record ``number`` announced.  In the broker's loop."""

    def __init__(self, gate: Gate, trail: Trail, number: int, intent: Intent, context: CallContext) -> None:
        self._gate = gate
        self._trail = trail
        self._context = context
        self._began = time.monotonic_ns()
        self._announced = [(number, intent)]
        #: Of all that was announced but the last, whether it may have had its effect.
        self._effects: list[bool] = []
        context.before, context.note = self._before, self._note

    @property
    def effect(self) -> bool:
        """Whether anything of the call may have had its effect."""
        return self._context.effect or any(self._effects)

    def _before(self, target: str) -> None:
        """Where a call leads on, that is judged and announced as a call of its own."""
        intent = self._announced[0][1]
        decided = self._gate.decide(intent.capability, intent.operation)
        if isinstance(decided, Refused):
            raise Denied(decided.code, target)
        further = msgspec.structs.replace(intent, target=target[:TEXT_MAX])
        self._announced.append((self._trail.intend(further), further))
        self._effects.append(self._context.effect)
        self._context.effect = False
        self._gate.stand(target)

    def _note(self, target: str, code: str) -> None:
        """What was not accepted of an answer is a refusal beside the call."""
        self._trail.refused(msgspec.structs.replace(self._announced[0][1], target=target[:TEXT_MAX]), code=code)

    def end(self, code: str, *, refused: DenialCode | None) -> bool:
        """It has ended: ``refused`` where that is a refusal.  False where that could not be recorded."""
        rest = self._context.rest
        if rest is not None and not rest.done():
            rest.add_done_callback(self._rested)
            return True
        if rest is not None:
            code, refused = _late(rest), None
        return self._record(code, refused)

    def _rested(self, rest: asyncio.Future[None]) -> None:
        # Where it cannot be written the trail keeps it, and writes it before its next record.
        self._record(_late(rest), None)

    def _record(self, code: str, refused: DenialCode | None) -> bool:
        micros = (time.monotonic_ns() - self._began) // 1000
        told = told_of(code, micros, self._context)
        recorded = True
        for (number, intent), effect in zip(self._announced, [*self._effects, self._context.effect], strict=True):
            how = ANSWER + code if refused is not None and effect else code
            try:
                self._trail.done(number, intent, **{**told, "code": how})
            except BackendError:
                recorded = False
            # What went to and fro, what it cost and what was dropped is counted once.
            told = {"micros": micros, "bytes_in": 0, "bytes_out": 0}
        return recorded


def _late(rest: asyncio.Future[None]) -> str:
    """What came of work that nobody waited for any more."""
    return "failed" if rest.exception() is not None else LATE
