"""
What calls of a run have left open, ended when the run is over: each with records of its own, as if the guest had asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from fastness.broker.asked import Asker
from fastness.broker.counts import Counts
from fastness.broker.trail import Trail
from fastness.capability import Opened
from fastness.errors import BackendError

__all__ = ["Leavings"]

#: What is recorded as done to it.
_OPERATION = "close"


class Leavings:
    """Those of one run.  For the broker's loop."""

    def __init__(self, asker: Asker, trail: Trail, counts: Counts) -> None:
        self._asker = asker
        self._trail = trail
        self._counts = counts
        self._ending: set[asyncio.Task[None]] = set()

    def end_soon(self) -> None:
        """End what there is, and wait for nothing."""
        opened = list(self._asker.opened.values())
        self._asker.opened.clear()
        for one in opened:
            task = asyncio.get_running_loop().create_task(self._end(one))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def end(self) -> None:
        """End it, and wait until that is done."""
        self.end_soon()
        if self._ending:
            await asyncio.wait(list(self._ending))

    async def _end(self, one: Opened) -> None:
        began = time.monotonic_ns()
        intent = self._asker.intent(one.capability, _OPERATION, one.target)
        number = None
        # It is ended whether or not that can be recorded: it takes something away.
        with contextlib.suppress(BackendError):
            number = self._trail.intend(intent)
        cost = await one.end()
        self._counts.spent(cost)
        if number is not None:
            micros = (time.monotonic_ns() - began) // 1000
            with contextlib.suppress(BackendError):  # the trail keeps it, and writes it before its next record
                self._trail.done(number, intent, code="", micros=micros, bytes_in=0, bytes_out=0, cost=cost)
