"""
Deadlines, cancellation and the death of the parent: one thread that sleeps in poll until one of them comes.

An engine serves one run at a time, so one epoch counter is enough: a store's deadline is one tick ahead, and
raising the epoch ends exactly the guest that is running.  Where nothing expires this thread never wakes.
"""

from __future__ import annotations

import os
import select
import time
from _thread import allocate_lock, get_ident

from fastness._linux.timerfd import Timer
from fastness._wasi.stop import Stop
from fastness.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from fastness._wasi.binding import Engine


class Watch:
    """
    Ends the run in progress when its time is up, its caller says so, or its caller is gone.

    ``begin`` and ``end`` are called by the runner thread around each run, ``loop`` by the main thread for ever.
    """

    def __init__(
        self,
        engine: Engine,
        control: socket,
        flush: Callable[[], None],
        idle_s: float = 0.0,
        may_end: Callable[[], bool] | None = None,
        talk: int = -1,
    ) -> None:
        self._engine = engine
        self._control = control
        self._flush = flush
        self._timer = Timer()
        self._flush_timer = Timer()
        # Ends the runner's poll; the filter lets this process write to no descriptor that could.
        self._bell = Timer()
        self._polling = False
        self._deaf, self._poll = select.poll(), select.poll()
        self._deaf.register(self._bell.fd, select.POLLIN)
        self._poll.register(self._bell.fd, select.POLLIN)
        if talk >= 0:
            self._poll.register(talk, select.POLLIN)
        # Guards `_running`, `_reason` and the epoch: a late tick must never reach the next run.
        self._lock = allocate_lock()
        self._wake = allocate_lock()
        self._wake.acquire()
        self._running = False
        self._reason = ""
        self._run = -1
        self._ends = 0.0
        self._cpu_clock = 0
        self._cpu_ends = 0.0
        self._idle_s = idle_s
        self._may_end = may_end
        self._last = time.monotonic()

    def bind_runner(self) -> None:
        """Called once on the runner thread: finds the clock of its processor time."""
        self._cpu_clock = time.pthread_getcpuclockid(get_ident())

    def begin(self, run: int, wall_s: float, cpu_s: float) -> None:
        """Start the clocks of a run."""
        with self._lock:
            self._run = run
            self._reason = ""
            self._running = True
            self._ends = time.monotonic() + wall_s
            self._cpu_ends = time.clock_gettime(self._cpu_clock) + cpu_s
        self._timer.arm(min(wall_s, cpu_s))

    def end(self) -> str:
        """Stop the clocks; returns why the run was told to stop, or an empty text."""
        self._timer.disarm()
        with self._lock:
            self._running = False
            self._last = time.monotonic()
            reason = self._reason
            # A release that nobody waited for must not end the next run's first sleep.
            self._wake.acquire(False)
        return reason

    def wait(self, seconds: float) -> None:
        """Sleep on behalf of the guest.  Raises :class:`Stop` when the run is told to stop meanwhile."""
        if self._wake.acquire(True, min(max(seconds, 0.0), 1e6)):
            raise Stop(self._reason)

    def check(self) -> None:
        """Raises :class:`Stop` when the run is told to stop."""
        if self._reason:
            raise Stop(self._reason)

    def wait_for_parent(self, seconds: float | None, deaf: bool = False) -> bool:
        """
        Wait on behalf of the guest for a frame of the parent's, ``seconds`` at most, None for no end.

        Returns whether something came, which a ``deaf`` wait does not look for.  Raises :class:`Stop` when the run is
        told to stop meanwhile.
        """
        with self._lock:
            self._polling = True
            reason = self._reason
        found: list[tuple[int, int]] = []
        if not reason:
            # Rounded up: a wait that is cut short by a fraction of a millisecond would spin.
            wait = None if seconds is None else int(min(max(seconds, 0.0), 1e6) * 1000) + (seconds > 0)
            found = (self._deaf if deaf else self._poll).poll(wait)
        with self._lock:
            self._polling = False
            reason = self._reason
            if reason:
                self._bell.disarm()
        if reason:
            raise Stop(reason)
        return bool(found)

    def flush_soon(self) -> None:
        """Have buffered output sent in a few milliseconds, whatever the guest does until then."""
        self._flush_timer.arm(0.005)

    def flushed(self) -> None:
        """The buffer is empty again: no need to wake."""
        self._flush_timer.disarm()

    def _stop(self, reason: str, run: int | None = None) -> None:
        with self._lock:
            if not self._running or (run is not None and run != self._run):
                return
            if not self._reason:
                self._reason = reason
            self._engine.increment_epoch()
            if self._wake.locked():
                self._wake.release()
            if self._polling:
                self._bell.arm(0)

    def _time_is_up(self) -> None:
        with self._lock:
            if not self._running:
                return
            wall_left = self._ends - time.monotonic()
            cpu_left = self._cpu_ends - time.clock_gettime(self._cpu_clock)
        if wall_left <= 0:
            self._stop("deadline")
        elif cpu_left <= 0:
            self._stop("cpu")
        else:
            # Processor time can run at most as fast as the wall clock, so this is the earliest next moment.
            self._timer.arm(max(min(wall_left, cpu_left), 0.0002))

    def _end_if_idle(self) -> None:
        """An engine that nobody has used for long ends by itself; the parent stops using it a little earlier."""
        with self._lock:
            idle = not self._running and time.monotonic() - self._last >= self._idle_s
        if idle and (self._may_end is None or self._may_end()):
            os._exit(0)

    def loop(self) -> None:
        """Serve events for ever; ends the process when the parent's end of the control socket closes."""
        poll = select.poll()
        control = self._control.fileno()
        for fd in (self._timer.fd, self._flush_timer.fd, control):
            poll.register(fd, select.POLLIN)
        parser = frames.FrameParser(1 << 16, 0, frames.HOST_TYPES)
        patience = int(self._idle_s * 1000) or None
        while True:
            events = poll.poll(patience)
            if not events:
                self._end_if_idle()
            for fd, _ in events:
                if fd == control:
                    data = self._control.recv(4096)
                    if not data:
                        os._exit(0)
                    parser.feed(data)
                    while (frame := parser.next()) is not None:
                        if frame.type in (frames.CANCEL, frames.INTERRUPT):
                            # The head is {"id": N}; a cancel of a run that is over is harmless.
                            self._stop("cancelled", _frame_id(frame.head))
                    continue
                try:
                    os.read(fd, 8)
                except BlockingIOError:
                    continue
                if fd == self._timer.fd:
                    self._time_is_up()
                else:
                    self._flush()


def _frame_id(head: bytes) -> int:
    digits = bytes(c for c in head if 48 <= c <= 57)
    return int(digits[:18] or b"0")
