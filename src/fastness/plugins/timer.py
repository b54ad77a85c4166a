"""
The timer: waits for what is due on a schedule, claims it, and has threads fire it.

It sleeps until the next time that it knows of, and looks up twice a second: another process may have scheduled
something sooner, and the clock may have been set.  Several timers, in any number of processes, may share a schedule.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import sqlite3
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable

from fastness.audit import writers
from fastness.capabilities._schedule_store import Due, Ended, Store
from fastness.capabilities._schedule_times import micros
from fastness.capabilities.schedule import GRACE_S
from fastness.errors import BackendError

__all__ = ["AT_ONCE", "EACH", "LOST", "MISSED", "SIDE", "Timer"]

#: What is fired at once; of that what is one plugin's for one owner, and what is one plugin's for all of its owners or
#: one owner's with all plugins: others' is on time meanwhile.
AT_ONCE, EACH, SIDE = 24, 8, 16
#: Codes of what was not fired in time, and of what was claimed by a host that is gone.
MISSED, LOST = "missed", "killed"
#: Seconds between two looks, those after one that failed, and those between two looks for timers that are gone.
_LOOK_S, _AGAIN_S, _GONE_S = 0.5, 1.0, 30.0
#: Seconds that one call that has ended may wait for others, to be written down together.
_TOGETHER_S = 0.001
#: Seconds between two searches behind very many that are due and have no thread to themselves.
_BEHIND_S = 0.05
#: Seconds by which the clock must have been put back to be told from one that is being kept right.
_BACK_S = 1.0
_END_S = 10.0

#: Fires one, and says until when it counts, in microseconds since 1970.
Fire = Callable[[Due], int]
#: Is told what is not fired, and why: ``MISSED`` or ``LOST``.
Tell = Callable[[Due, str], object]


class Timer:
    """
    Fires what is due in ``store`` by calling ``fire``, in threads of its own; what that raises is logged.

    ``folder`` is where timers say that they live; the folder above it exists and is private to this user.  Call
    :meth:`start`, and :meth:`stop` at the end.  A process that forks has no timer in its child.
    """

    def __init__(
        self, store: Store, folder: str, fire: Fire, tell: Tell, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._folder = folder
        self._fire = fire
        self._tell = tell
        self._clock = clock
        self._news = threading.Condition()
        self._woken = self._stopping = False
        #: Claims that are over, and how many of each plugin and owner are not.
        self._ended: list[Ended] = []
        self._busy: Counter[tuple[str, str]] = Counter()
        self._work: queue.SimpleQueue[Due | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, name="fastness-schedule", daemon=True)
        self._writer: writers.Writer | None = None
        #: What the clock was ahead of the time that has passed, and when timers that are gone were looked for.
        self._ahead = math.inf
        self._looked = -math.inf
        #: When what is due behind very many of one plugin and owner is looked for.
        self._behind = -math.inf
        _all.add(self)

    def start(self) -> None:
        """Begin.  Raises RuntimeError where no thread can be started."""
        self._thread.start()

    def wake(self) -> None:
        """Something was scheduled, or taken off.  From any thread."""
        with self._news:
            self._woken = True
            self._news.notify_all()

    def stop(self) -> None:
        """Fire nothing more; what fires just now goes on.  Idempotent."""
        self._stopping = True
        self.wake()

    def join(self) -> None:
        """Stop, and wait until what fires has ended, ten seconds at most.  Idempotent."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    # in its thread

    def _run(self) -> None:
        ended: list[Ended] = []
        wait_s = 0.0
        full = False
        while True:
            with self._news:
                self._news.wait_for(lambda: self._woken or bool(self._ended), wait_s)
                if full:
                    # What comes together is one transaction.
                    self._news.wait_for(lambda: len(self._ended) >= self._busy.total(), _TOGETHER_S)
                ended += self._ended
                self._ended, self._woken = [], False
                busy, stopping = Counter(self._busy), self._stopping
            try:
                wait_s = self._step(ended, busy, stopping)
                ended.clear()
                full = wait_s == _LOOK_S and bool(self._busy)
            except (sqlite3.Error, OSError, BackendError) as error:
                logging.getLogger("fastness").warning("nothing is called as scheduled for now: %s", error)
                wait_s = self._later()
            except Exception:
                logging.getLogger("fastness").exception("nothing is called as scheduled for now")
                wait_s = self._later()
            if stopping and not busy:
                break
        for _ in self._threads:
            self._work.put(None)
        if self._writer is not None:
            # With claims that could not be ended its file stays: another timer ends them.
            self._writer.leave() if ended else self._writer.close()

    def _later(self) -> float:
        # Whatever comes meanwhile: it could not be kept either.
        with self._news:
            self._news.wait_for(lambda: self._stopping, _AGAIN_S)
        return _AGAIN_S

    def _step(self, ended: list[Ended], busy: Counter[tuple[str, str]], stopping: bool) -> float:
        """End claims, claim what is due and hand it over; seconds until there is more to do, as far as is known."""
        if self._writer is None:
            # Not while another timer looks who lives.
            self._writer = self._store.alone(lambda: writers.Writer(self._folder, 0))
        now = micros(self._clock())
        self._look_around(now)
        free = 0 if stopping else AT_ONCE - busy.total()
        if free > 0 and not ended:
            due = self._store.next()
            if due is None or due > now:
                return _until(due, now)
        if not ended and free <= 0:
            return _LOOK_S
        behind = time.monotonic() >= self._behind
        found, missed = self._store.claim(
            self._writer.name,
            now,
            most=free,
            each=EACH,
            side=SIDE,
            busy=busy,
            grace=micros(GRACE_S),
            ended=ended,
            behind=behind,
        )
        if behind and len(found) < free:
            self._behind = time.monotonic() + _BEHIND_S
        with self._news:
            self._busy.update(one.whose for one in found)
        for one in found:
            self._work.put(one)
        self._make_threads()
        for one in missed:
            self._told(one, MISSED)
        if missed:
            return 0.0
        # With all threads at work it goes on when one of them has ended.
        return _LOOK_S if len(found) >= free else _until(self._store.next(), now)

    def _make_threads(self) -> None:
        while len(self._threads) < self._busy.total():
            thread = threading.Thread(target=self._fire_all, name="fastness-scheduled", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # What was claimed waits for those that there are, or for the next attempt.
                logging.getLogger("fastness").warning("no thread for what was scheduled: %s", error)
                return
            self._threads.append(thread)

    def _look_around(self, now: int) -> None:
        passed = time.monotonic()
        ahead = now / 1e6 - passed
        if ahead < self._ahead - _BACK_S:
            self._store.restep(now)
        self._ahead = ahead
        if passed >= self._looked + _GONE_S:
            self._looked = passed
            # Before claims are looked at: what is found dead later may have had some.
            dead = writers.dead(self._folder)
            for one in self._store.lost(self._living):
                self._told(one, LOST)
            for name in dead:
                writers.bury(self._folder, name)

    def _living(self) -> set[str]:
        return set(os.listdir(self._folder)) - set(writers.dead(self._folder))

    def _told(self, one: Due, why: str) -> None:
        try:
            self._tell(one, why)
        except Exception:
            logging.getLogger("fastness").exception("that a call of %s was not made could not be told", one.plugin)

    # in threads that fire

    def _fire_all(self) -> None:
        while True:
            one = self._work.get()
            if one is None:
                return
            frees = 0
            try:
                frees = self._fire(one)
            except BaseException:
                # A SystemExit of the program's own too: this thread goes on, as its place is counted.
                logging.getLogger("fastness").exception("a call of %s that was scheduled failed", one.plugin)
            with self._news:
                self._busy[one.whose] -= 1
                self._busy += Counter()
                self._ended.append(Ended(one.key, one.every > 0, frees))
                self._news.notify_all()


def _until(due: int | None, now: int) -> float:
    """Seconds to wait for what is due then; what is due by now has no thread to itself, and waits for one."""
    return _LOOK_S if due is None or due <= now else min((due - now) / 1e6, _LOOK_S)


# Weak: who is not held any more has ended.
_all: weakref.WeakSet[Timer] = weakref.WeakSet()


def _in_child() -> None:
    """What tells that the parent's timers live must not be held by a child that may outlive them."""
    for timer in _all:
        if timer._writer is not None:
            timer._writer.leave()


os.register_at_fork(after_in_child=_in_child)
