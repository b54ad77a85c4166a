"""
The records of one call: of what it was asked to do, and of each place that it leads on to.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fastness.broker.asked import TEXT_MAX
from fastness.broker.gate import Gate, Refused
from fastness.broker.trail import Intent, Trail
from fastness.capability import CallContext
from fastness.errors import BackendError, Denied

__all__ = ["Announced", "told_of"]


def told_of(code: str, micros: int, context: CallContext) -> dict[str, Any]:
    """What is recorded of the end of a call."""
    told = {"code": code, "micros": micros, "bytes_in": context.bytes_in, "bytes_out": context.bytes_out}
    # A trail of somebody else's need not know what costs are, as long as there are none.
    return {**told, "cost": context.cost} if context.cost else told


class Announced:
    """Record ``number`` of ``trail`` has announced ``intent``."""

    def __init__(self, gate: Gate, trail: Trail, intent: Intent, number: int) -> None:
        self._gate = gate
        self._trail = trail
        self._intent = intent
        self._all = [(number, intent)]

    def before(self, target: str) -> None:
        """Where it leads on, it is judged and announced as a call of its own.  Raises Denied, BackendError."""
        decided = self._gate.decide(self._intent.capability, self._intent.operation)
        if isinstance(decided, Refused):
            raise Denied(decided.code, target)
        further = msgspec.structs.replace(self._intent, target=target[:TEXT_MAX])
        self._all.append((self._trail.intend(further), further))
        self._gate.stand(target)

    def note(self, target: str, code: str) -> None:
        """Record what was not accepted of what came back, as a refusal beside the call."""
        noted = msgspec.structs.replace(self._intent, target=target[:TEXT_MAX])
        self._trail.refused(noted, code=code)

    def done(self, told: dict[str, Any]) -> bool:
        """It is over; whether that could be recorded."""
        recorded = True
        for number, intent in self._all:
            try:
                self._trail.done(number, intent, **told)
            except BackendError:
                recorded = False
            # What went to and fro, and what it cost, is counted once.
            told = {**told, "bytes_in": 0, "bytes_out": 0}
            told.pop("cost", None)
        return recorded
