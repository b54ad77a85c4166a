"""
A point in time up to which something may take, whatever it waits for meanwhile.

A limit for each wait is none for their sum: an engine that sends a byte a second is never late.
"""

from __future__ import annotations

import select
import time

from fastness._container.faults import EngineFault

_RESTART = "restart the engine; where it stays silent, look at its log"


class Deadline:
    """So many ``seconds`` from now.  ``what`` names the work in the error."""

    __slots__ = ("ends", "seconds", "what")

    def __init__(self, seconds: float, what: str = "the engine") -> None:
        self.seconds = seconds
        self.what = what
        self.ends = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left, more than 0.  Raises EngineFault (``silent``) where none are."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise self.passed()
        return left

    def passed(self) -> EngineFault:
        """The fault of an engine that took too long."""
        return EngineFault("silent", f"{self.what} did not answer within {self.seconds:.3g} s", _RESTART)

    def wait(self, fd: int, event: int) -> None:
        """
        Wait until ``fd`` has ``event`` (``POLLIN`` or ``POLLOUT`` of poll(2)), its other end gone counted as that.

        Raises EngineFault (``silent``).
        """
        poller = select.poll()
        poller.register(fd, event)
        while True:
            # Rounded up: a wait that is cut short by a fraction of a millisecond would spin.
            if poller.poll(self.left() * 1000 + 1):
                return
