"""
What the calls of one run use, told to the meter of its plugin and owner, where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness.broker.gate import Gate
from fastness.capability import CallContext
from fastness.errors import QuotaExceeded
from fastness.runs import DenialCode

if TYPE_CHECKING:
    from fastness.metering.meter import Meter

__all__ = ["Counts"]

_REFUSALS = frozenset(code.value for code in DenialCode)


class Counts:
    """Each call that was taken, or admitted, is over once.  Any thread may use it."""

    def __init__(self, gate: Gate, meter: Meter | None) -> None:
        self._gate = gate
        self._meter = meter

    @property
    def cost(self) -> int:
        """What all calls cost up to now, in billionths of the operator's currency."""
        return 0 if self._meter is None else self._meter.cost

    def take(self) -> bool:
        """Whether a call may be made without asking anybody."""
        return self._meter is None or self._meter.take()

    def give_back(self) -> None:
        """A call that was taken is not made."""
        if self._meter is not None:
            self._meter.give_back()

    def admit(self, capability: str) -> None:
        """A call is about to be looked at.  Raises QuotaExceeded, BackendError."""
        if self._meter is None:
            return
        try:
            self._meter.admit()
        except QuotaExceeded:
            self._meter.refused(self._kind(capability))
            raise

    def over(self, capability: str, code: str, context: CallContext | None = None) -> None:
        """A call is over; without a ``context`` it came to nothing."""
        if self._meter is None:
            return
        kind, refused = self._kind(capability), code in _REFUSALS
        if context is None:
            self._meter.over(kind, refused=refused)
        else:
            self._meter.over(
                kind,
                bytes_in=context.bytes_in,
                bytes_out=context.bytes_out,
                cpu_s=context.cpu_s,
                cost=context.cost,
                refused=refused,
            )

    def spent(self, cost: int) -> None:
        """Something cost so much that no call waits for."""
        if self._meter is not None:
            self._meter.spend(cost)

    def _kind(self, capability: str) -> str:
        # What is not in the policy is a word of the guest's.
        return capability if self._gate.knows(capability) else ""
