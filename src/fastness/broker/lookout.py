"""
Looks, while calls are in flight, whether the grant behind them still stands.

The gate judges calls that begin; this ends those that had begun when their grant did.  Whoever revoked it may be
another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastness.broker.gate import Gate
from fastness.runs import DenialCode

__all__ = ["Lookout"]

#: Seconds between two looks.
_LOOK_S = 0.05


class Lookout:
    """For the broker's loop: ``ended`` is called with the reason where the grant has ended while ``busy`` says so."""

    def __init__(self, gate: Gate, busy: Callable[[], bool], ended: Callable[[DenialCode], None]) -> None:
        self._gate = gate
        self._busy = busy
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Something is in flight."""
        if self._timer is None and self._gate.may_end:
            self._timer = loop.call_later(_LOOK_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if not self._busy():
            return
        self.begin(loop)
        ended = self._gate.ended()
        if ended is not None:
            self._ended(ended)
