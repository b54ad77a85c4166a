"""
The clocks of one run: the real ones, or fixed ones that only sleeping moves.
"""

from __future__ import annotations

from time import monotonic_ns, thread_time_ns, time_ns

#: The monotonic clock starts here, not at zero: some language runtimes take zero for a broken clock.
MONOTONIC_START = 1_000_000_000


class Clock:
    """
    All values are nanoseconds.

    With ``at`` None time is real; ``monotonic`` counts from the run's start, so that it tells nothing about the host's
    uptime, and ``cpu`` is what the engine's thread used since then.  With ``at`` (nanoseconds since the epoch) all
    clocks stand still, and a sleep moves them by its length without waiting.
    """

    __slots__ = ("_at", "_cpu", "_start", "frozen", "slept")

    def __init__(self, at: int | None = None) -> None:
        self._at = at
        self.frozen = at is not None
        self.slept = 0
        if at is None:
            self._start = monotonic_ns() - MONOTONIC_START
            self._cpu = thread_time_ns()

    def realtime(self) -> int:
        """Nanoseconds since the epoch."""
        return time_ns() if self._at is None else self._at + self.slept

    def monotonic(self) -> int:
        """Nanoseconds since the run's start, plus a constant."""
        return monotonic_ns() - self._start if self._at is None else MONOTONIC_START + self.slept

    def cpu(self) -> int:
        """Nanoseconds of processor time; what was slept where the clock is fixed, for it must not show the host's."""
        return thread_time_ns() - self._cpu if self._at is None else self.slept
