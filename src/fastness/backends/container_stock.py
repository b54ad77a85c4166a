"""
The containers of one sandbox: those that wait for work, by kind, all that are alive, and those not yet removed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from fastness._container import containers
from fastness._container.faults import EngineFault
from fastness.backends import container_box
from fastness.backends.container_box import ContainerBox, Kind
from fastness.backends.native_keeper import Keeper
from fastness.errors import BackendError, FastnessError
from fastness.runtime import Owner, claim
from fastness.waiting import ThreadWaiting, drive

if TYPE_CHECKING:
    from fastness._container.image import Image
    from fastness._container.probe import Engine
    from fastness.backends.container import ContainerBackend
    from fastness.waiting import Waiting

#: Kinds of containers that one sandbox keeps ready, and seconds after which one that waits is not used any more.
_KINDS_MAX = 16
_TRUST_IDLE_S = 600.0
#: Containers that are made at once.
_AT_ONCE = 4
#: Seconds for the removal of one from an engine that did not answer to the last.
_SILENT_S = 1.0


class Stock:
    """Any thread may use it.  ``pool`` containers of a kind are to wait; None: one, once a kind was asked for twice."""

    def __init__(self, waiting: Waiting, pool: int | None) -> None:
        self._waiting = waiting
        self._pool = pool
        self._lock = threading.Lock()
        self._kinds: OrderedDict[Kind, list[ContainerBox]] = OrderedDict()
        self._live: dict[str, Engine] = {}
        self._left: dict[str, Engine] = {}
        self._boxes: set[ContainerBox] = set()
        self._asked: set[Kind] = set()
        self._coming: set[Kind] = set()
        self._keeper = Keeper()
        self._patience = containers.END_S
        self._owner: Owner | None = None
        self._closed = False

    def folder(self) -> str:
        """This process's own folder.  Raises BackendError."""
        with self._lock:
            if self._owner is None or self._owner.released:
                try:
                    self._owner = claim()
                except OSError as error:
                    fix = "free space and files where FASTNESS_HOME, or XDG_RUNTIME_DIR, is"
                    raise BackendError("making this process's folder", error, fix) from error
            return self._owner.folder

    def make(self, engine: Engine, image: Image, kind: Kind) -> ContainerBox:
        """A container that gets ready by itself.  Raises EngineFault, NotAsAsked, ``OSError``, BackendError."""
        if self._closed:
            raise BackendError("running", "the sandbox is closed", "make a new one")
        box = container_box.birth(engine, image, kind, self._waiting)
        box.kind = kind
        if not self._enter(box, engine):
            # Nobody comes for it any more.
            self._end(box, engine)
            raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")
        return box

    def _enter(self, box: ContainerBox, engine: Engine) -> bool:
        """Count one among those that are alive; False where that is over."""
        with self._lock:
            if self._closed:
                return False
            self._live[box.container] = engine
            self._boxes.add(box)
            return True

    def make_many(self, birth: Callable[[], ContainerBox], count: int) -> list[ContainerBox]:
        """Several at once; where one fails the others are buried.  Raises what ``birth`` raises."""
        if count <= 0:
            return []
        with ThreadPoolExecutor(min(count, _AT_ONCE)) as threads:
            futures = [threads.submit(birth) for _ in range(count)]
        made = [one.result() for one in futures if one.exception() is None]
        failed = next((error for one in futures if (error := one.exception()) is not None), None)
        if failed is not None:
            for box in made:
                self.bury(box)
            raise failed
        return made

    def waiting_one(self, kind: Kind) -> ContainerBox | None:
        """One that waits, if there is one that still lives."""
        while True:
            with self._lock:
                waiting = self._kinds.get(kind)
                if not waiting:
                    return None
                box = waiting.pop()
            if box.alive and time.monotonic() - box.born < _TRUST_IDLE_S:
                box.waiting = self._waiting
                return box
            self.bury(box)

    def waiting_count(self, kind: Kind) -> int:
        """How many wait."""
        with self._lock:
            return len(self._kinds.get(kind, ()))

    def keep(self, box: ContainerBox) -> None:
        """Let one wait."""
        dropped: list[ContainerBox] = []
        with self._lock:
            if self._closed:
                dropped.append(box)
            else:
                self._kinds.setdefault(box.kind, []).append(box)
                self._kinds.move_to_end(box.kind)
                while len(self._kinds) > _KINDS_MAX:
                    dropped += self._kinds.popitem(last=False)[1]
        for one in dropped:
            self.bury(one)

    def is_wanted(self, kind: Kind) -> bool:
        """Whether one more of this kind is to wait; it then counts as coming."""
        with self._lock:
            if self._pool is None and kind not in self._asked:
                self._asked.add(kind)
                return False
            most = 1 if self._pool is None else self._pool
            if self._closed or kind in self._coming or len(self._kinds.get(kind, ())) >= most:
                return False
            self._coming.add(kind)
            return True

    def refill(self, kind: Kind, backend: ContainerBackend) -> None:
        """Make some that are wanted, soon."""

        def work() -> None:
            quiet = ThreadWaiting()
            try:
                while not self._closed and self.waiting_count(kind) < (1 if self._pool is None else self._pool):
                    box = backend._birth(backend.engine(), kind)
                    box.waiting = quiet
                    try:
                        drive(backend.become_ready(box, kind))
                    except BaseException:
                        self.bury(box)
                        raise
                    self.keep(box)
            except (FastnessError, OSError) as error:
                # A run that needs one meets the same fault and tells it.
                logging.getLogger("fastness").debug("no container could be made ahead: %s", error)
            finally:
                with self._lock:
                    self._coming.discard(kind)

        self._keeper.soon(work)

    def bury(self, box: ContainerBox) -> None:
        """See to the end of one, soon."""
        with self._lock:
            self._boxes.discard(box)
            engine = self._live.pop(box.container, None)
        self._keeper.soon(partial(self._end, box, engine))

    def _end(self, box: ContainerBox, engine: Engine | None) -> None:
        box.close()
        if engine is not None:
            self._remove(box.container, engine)

    def _remove(self, name: str, engine: Engine) -> None:
        with self._lock:
            # Before it is tried: where an earlier one fails, this one is not tried, and must not be forgotten.
            self._left[name] = engine
            waiting = dict(self._left)
        for one, where in waiting.items():
            try:
                containers.remove(where, one, self._patience)
            except EngineFault as fault:
                if fault.kind == "silent":
                    # The others are tried too, and not waited for as long each.
                    self._patience = _SILENT_S
                logging.getLogger("fastness").warning(
                    "the container %s could not be removed (%s); it ends by itself, and the next start, or "
                    "fastness doctor --sweep, removes it",
                    one[:12],
                    fault.cause,
                )
                return
            self._patience = containers.END_S
            with self._lock:
                self._left.pop(one, None)

    def left(self) -> list[str]:
        """Ids of containers that could not be removed."""
        with self._lock:
            return sorted(self._left)

    def close(self) -> None:
        """End every container, and wait for that."""
        with self._lock:
            self._closed = True
            boxes = [box for waiting in self._kinds.values() for box in waiting]
            self._kinds.clear()
        for box in boxes:
            self.bury(box)
        with self._lock:
            rest = list(self._boxes)
        for box in rest:
            # Somebody has it, hears of the end and gives it back.
            box.kill()
        self._keeper.close()
        with self._lock:
            owner, self._owner = self._owner, None
        if owner is not None:
            owner.release()
