"""
Outcomes of calls that are answered already: they are recorded while the guest takes the answer.

The intent was committed before the effect.  Where this process dies meanwhile, the trail says at its next start that it
is not known how the call ended.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, cast

from fastness.broker import portal
from fastness.broker.trail import Intent, QuickTrail, Trail
from fastness.errors import BackendError

__all__ = ["Outcomes"]


class Outcomes:
    """What one run owes its trail; any thread may use it."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        #: The trail, where it can tell that it would have to wait.
        self.quick = cast("QuickTrail", trail) if hasattr(trail, "intend_at_once") else None
        self._owed: deque[tuple[int, Intent, dict[str, Any]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._owed)

    def owe(self, number: int, intent: Intent, **told: Any) -> None:
        """What the record of this number announced has ended."""
        self._owed.append((number, intent, told))

    def settle(self, *, wait: bool) -> None:
        """Record what is owed.  Without ``wait``, what would have to wait for others is left to the broker's loop."""
        while True:
            try:
                number, intent, told = self._owed.popleft()
            except IndexError:
                return  # also where another thread was quicker
            if not wait:
                if self.quick is None or not self.quick.done_at_once(number, intent, **told):
                    portal.soon(self.record, number, intent, told)
            else:
                self.record(number, intent, told)

    def record(self, number: int, intent: Intent, told: dict[str, Any]) -> None:
        """Record one outcome, waiting for others where that must be."""
        with contextlib.suppress(BackendError):  # the trail keeps it, and writes it before its next record
            self._trail.done(number, intent, **told)
