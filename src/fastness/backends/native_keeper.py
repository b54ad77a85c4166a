"""
The thread that works behind the runs of a native sandbox: it buries guests that are done and keeps others ready.

A run's caller has its result as soon as the guest has given it.  Waiting for the guest's process to be gone, taking its
slot and folder back and making the next guest is what this thread does meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import time
from typing import TYPE_CHECKING

from fastness.errors import FastnessError
from fastness.waiting import ThreadWaiting, drive

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastness.backends.native_family import Family
from fastness.backends.native_guest import Early, Guest, Size

#: Seconds between two looks at what is minded.
_LOOK_S = 1.0
#: Seconds without another end after which guests that were told to end are buried, and the most that they wait:
#: together they are less work, and the next run, where it follows at once, needs the processors more.
_QUIET_S = 0.01
_BURY_AFTER_S = 0.1
#: How many wait at most, each with its slot and its folder.
DEAD_MOST = 12


class Keeper:
    """One thread, started with the first job, in the process that made it."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False
        self._minded: list[Callable[[], None]] = []
        self._dead: list[tuple[Family, Guest]] = []
        self._bury_at = self._bury_by = 0.0
        self._wanted: dict[tuple[int, Size], tuple[int, Early, int]] = {}
        #: Those of them that are seen to later, by whom; and from when on.
        self._spare: dict[tuple[int, Size], Family] = {}
        self._spare_at = 0.0
        self._waiting = ThreadWaiting()

    def bury(self, family: Family, guest: Guest) -> None:
        """See a guest to its end, soon; it is told to end now.  A forked child's is still its parent's."""
        if self._pid != os.getpid():
            return
        guest.box.kill()
        with self._lock:
            later = not self._closed and self._start()
            if later:
                now = time.monotonic()
                self._dead.append((family, guest))
                first, full = len(self._dead) == 1, len(self._dead) == DEAD_MOST
                if first:
                    self._bury_by = now + _BURY_AFTER_S
                self._bury_at = 0.0 if full else min(now + _QUIET_S, self._bury_by)
                if first or full:
                    # The thread may wait without an end.
                    self._jobs.put(_nothing)
        if not later:
            family.bury(guest)

    def _bury_all(self) -> None:
        while self._dead:
            with self._lock:
                family, guest = self._dead.pop()
            family.bury(guest)

    def soon(self, job: Callable[[], None]) -> None:
        """Have something done that blocks; done here where there is no thread for it any more."""
        with self._lock:
            later = not self._closed and self._pid == os.getpid() and self._start()
            if later:
                self._jobs.put(job)
        if not later:
            job()

    def mind(self, look: Callable[[], None]) -> None:
        """Call ``look``, which is quick, now and then until it is let go."""
        with self._lock:
            if not self._closed and self._start():
                self._minded.append(look)
                # The thread may wait without an end.
                self._jobs.put(_nothing)

    def let_go(self, look: Callable[[], None]) -> None:
        """The end of :meth:`mind`."""
        with self._lock, contextlib.suppress(ValueError):
            self._minded.remove(look)

    def refill(self, family: Family, key: Size, count: int, early: Early) -> None:
        """Have ``count`` guests of this kind waiting, soon, each shown to ``early`` first.  The last wish counts."""
        self._refill(family, key, count, early, count)

    def spare(self, family: Family, key: Size, early: Early) -> None:
        """
        The same for one that nobody has asked for, once no run has ended for a moment.

        A run that follows at once is served sooner by a guest of its own than by one that others are made beside.
        """
        with self._lock:
            if self._closed or not self._start():
                return
            place = (id(family), key)
            first = not self._spare
            self._spare_at = time.monotonic() + _QUIET_S
            if place not in self._wanted or place in self._spare:
                self._wanted[place] = 1, early, 1
                self._spare[place] = family
            if first:
                # The thread may wait without an end.
                self._jobs.put(_nothing)

    def _make_spares(self) -> None:
        with self._lock:
            due = dict(self._spare) if time.monotonic() >= self._spare_at else {}
            if due:
                self._spare.clear()
        for place, family in due.items():
            self._fill(family, place[1], place)

    def _refill(self, family: Family, key: Size, count: int, early: Early, most: int) -> None:
        with self._lock:
            if self._closed or most <= 0:
                return
            place = (id(family), key)
            pending = place in self._wanted
            if not self._start():
                return
            self._wanted[place] = count, early, most
            if not pending:
                self._jobs.put(lambda: self._fill(family, key, place))

    def _fill(self, family: Family, key: Size, place: tuple[int, Size]) -> None:
        with self._lock:
            count, early, most = self._wanted.pop(place)
            if self._closed:
                return
        if family.waiting_count(key) >= count:
            return
        try:
            family.put_ready(drive(family.make(key, self._waiting, ahead=True, early=early)))
        except (FastnessError, OSError) as error:
            # A run that needs a guest meets the same fault and tells it; this one is nobody's yet.
            import logging

            logging.getLogger("fastness").debug("no guest could be made ahead: %s", error)
            return
        # One at a time, so that guests which have ended are not kept waiting for their burial; and no more than were
        # wanted, for where many kinds are, each may have to go for the next.
        self._refill(family, key, count, early, most - 1)

    def _start(self) -> bool:
        """False where there is no thread to be had."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="fastness-keeper", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _work(self) -> None:
        looked = time.monotonic()
        while True:
            job: Callable[[], None] | None = _nothing
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=self._patience(looked))
            try:
                if job is not None:
                    job()
                if self._spare and job is not None:
                    self._make_spares()
                if self._dead and (job is None or time.monotonic() >= self._bury_at):
                    self._bury_all()
                if self._minded and time.monotonic() - looked >= _LOOK_S:
                    looked = time.monotonic()
                    self._look()
            except Exception:
                import logging

                logging.getLogger("fastness").exception("a guest could not be seen to its end")
            if job is None:
                return

    def _patience(self, looked: float) -> float | None:
        """Seconds until there is something to do that is in no queue; None for never."""
        at = self._bury_at if self._dead else math.inf
        if self._spare:
            at = min(at, self._spare_at)
        if self._minded:
            at = min(at, looked + _LOOK_S)
        return None if at == math.inf else max(0.0, at - time.monotonic())

    def _look(self) -> None:
        for look in list(self._minded):
            look()

    def close(self) -> None:
        """Do what is left to do, then stop.  Blocks for it."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None and self._pid == os.getpid():
            self._jobs.put(None)
            thread.join()


def _nothing() -> None:
    """A job that wakes the thread."""
