"""
The workers of one sandbox: those that wait for work, by what they have imported, and all that are alive.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from fastness.backends import worker_process
from fastness.backends.worker_process import Worker
from fastness.errors import BackendError
from fastness.runtime import Owner, claim

if TYPE_CHECKING:
    from fastness.waiting import Waiting

#: Kinds of workers (by preload and packages) that one sandbox keeps ready.
_KINDS_MAX = 16
#: Seconds after which a worker that waits is not used any more.
_TRUST_IDLE_S = 300.0

Kind = tuple[tuple[str, ...], tuple[str, ...]]


class Stock:
    """Any thread may use it.  ``ready`` workers of a kind are to wait."""

    def __init__(self, waiting: Waiting, ready: int, firewall: bool) -> None:
        self._waiting = waiting
        self._ready = ready
        self._firewall = firewall
        # For tables, never held for a wait.
        self._lock = threading.RLock()
        self.owner: Owner | None = None
        self._kinds: OrderedDict[Kind, tuple[int, list[Worker]]] = OrderedDict()
        self._live: set[Worker] = set()
        #: Those that somebody has taken and will give back, who closes them.
        self._held: set[Worker] = set()
        self._made = 0
        self._asked: set[Kind] = set()
        #: How many are being started to wait.
        self._coming: Counter[Kind] = Counter()
        self._closed = False

    def spawn(self, kind: Kind) -> Worker:
        """Start a worker; it gets ready by itself.  Raises BackendError."""
        dropped: list[Worker] = []
        with self._lock:
            if self._closed:
                raise BackendError("running", "the sandbox is closed", "make a new one")
            if self.owner is None or self.owner.released:
                try:
                    self.owner = claim()
                except OSError as error:
                    fix = "free space and files where FASTNESS_HOME, or XDG_RUNTIME_DIR, is"
                    raise BackendError("making this process's folder", error, fix) from error
            owner = self.owner
            if kind not in self._kinds:
                self._kinds[kind] = (worker_process.configuration(*kind, firewall=self._firewall), [])
            self._kinds.move_to_end(kind)
            while len(self._kinds) > _KINDS_MAX:
                fd, waiting = self._kinds.popitem(last=False)[1]
                os.close(fd)
                dropped += waiting
            self._made += 1
            name = f"w{self._made}"
            # One of this start's own: the kind may be dropped, or everything closed, meanwhile.
            config = os.dup(self._kinds[kind][0])
        try:
            # Starting a process takes a while, and others want the tables.
            worker = worker_process.spawn(name, owner.folder, config, self._waiting)
        finally:
            os.close(config)
            for one in dropped:
                self.bury(one)
        with self._lock:
            self._live.add(worker)
        self._check_open(worker)
        return worker

    def _check_open(self, worker: Worker) -> None:
        """See to the end of one that came too late.  Raises BackendError."""
        if self._closed:
            self.bury(worker)
            raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")

    def waiting_one(self, kind: Kind) -> Worker | None:
        """One that waits, if there is one that still lives."""
        while True:
            with self._lock:
                _, waiting = self._kinds.get(kind, (-1, []))
                if not waiting:
                    return None
                worker = waiting.pop()
            if worker.keeper.poll() is None and time.monotonic() - worker.born < _TRUST_IDLE_S:
                return worker
            self.bury(worker)

    def hold(self, worker: Worker) -> None:
        """It is the caller's from now on, until it is buried."""
        with self._lock:
            self._held.add(worker)

    def live(self) -> list[Worker]:
        """All that have not been buried."""
        with self._lock:
            return list(self._live)

    def bury(self, worker: Worker) -> None:
        """See to the end of a worker.  Blocks."""
        worker.close()
        with self._lock:
            self._live.discard(worker)
            self._held.discard(worker)

    def is_coming(self, kind: Kind) -> bool:
        """Whether one is being started that will wait."""
        return self._coming[kind] > 0

    def is_wanted(self, kind: Kind) -> bool:
        """Whether one more of this kind is to wait; it then counts as coming."""
        with self._lock:
            if kind not in self._asked:
                # A caller who runs one thing only is not made to wait for the end of a second worker.
                self._asked.add(kind)
                return False
            held = self._kinds.get(kind)
            if self._closed or held is None or len(held[1]) + self._coming[kind] >= self._ready:
                return False
            self._coming[kind] += 1
            return True

    def refill(self, kind: Kind) -> None:
        """Start one that is wanted, and let it wait."""
        made: list[Worker] = []
        try:
            made.append(self.spawn(kind))
        except (BackendError, OSError):
            pass  # the next run meets it and tells it
        finally:
            self.keep(kind, made)
            with self._lock:
                self._coming[kind] -= 1

    def keep(self, kind: Kind, workers: list[Worker]) -> None:
        """Let workers wait for work; where nobody keeps their kind any more they end."""
        with self._lock:
            held = self._kinds.get(kind)
            if held is not None:
                held[1].extend(workers)
        if held is None:
            for one in workers:
                self.bury(one)

    def close(self) -> None:
        """End every worker.  One that somebody has is closed by that one, who hears of the end first."""
        with self._lock:
            self._closed = True
            kinds = list(self._kinds.values())
            self._kinds.clear()
            live = list(self._live)
            held = set(self._held)
        for fd, _ in kinds:
            os.close(fd)
        for worker in live:
            worker.kill()
        for worker in live:
            if worker in held:
                worker.finish()
            else:
                self.bury(worker)

    def leave(self) -> None:
        """Remove the folder of all of them."""
        with self._lock:
            owner, self.owner = self.owner, None
        if owner is not None:
            owner.release()
