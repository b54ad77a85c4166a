"""
A zygote and the guests that it makes: started when first needed, kept ready ahead, used once, seen to their end.

One family serves one tenant with one set of preloaded modules.  A guest that waits is confined already and sits in a
control group slot where there are any; slots hold one guest at a time and are given back when its last process is gone.
"""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from fastness._linux import uids
from fastness.backends.box import Box, BoxLost, become_ready
from fastness.backends.native_guest import Early, Guest, Size, make_folder
from fastness.backends.native_slots import SlotStock, leaf
from fastness.backends.zygote_process import ZygoteProcess, spawned
from fastness.errors import BackendError

if TYPE_CHECKING:
    from fastness.waiting import Waiting

#: After so many guests, or so many seconds, a zygote is replaced: all its guests have the same addresses and hash seed.
RECYCLE_GUESTS = 5_000
RECYCLE_S = 900.0
#: Seconds within which a killed guest has ended, or something is wrong with the machine.
_BURY_S = 10.0

_names = count(1)


class Family:
    """Guests of one kind.  ``config`` and ``environment`` are the zygote's; ``boxes`` is a folder for work folders."""

    def __init__(
        self,
        config: dict[str, Any],
        environment: dict[str, str],
        waiting: Waiting,
        stock: SlotStock,
        boxes: str,
        bury: Callable[[Guest], None],
    ) -> None:
        self.config = config
        self.tier: str = config["tier"]
        self._environment = environment
        self._waiting = waiting
        self._stock = stock
        self._boxes = boxes
        self._later = bury
        self._lock = threading.Lock()
        #: Of those who wait as the sandbox does, one sees to a new zygote; the keeper's thread waits in its own way.
        self._starting = waiting.slots(1)
        self._spawning = threading.Lock()
        self._zygote: ZygoteProcess | None = None
        self._unborn: ZygoteProcess | None = None
        self._old, self._ready = list[ZygoteProcess](), dict[Size, list[Guest]]()
        self._users: dict[int, list[int]] = {}
        self._guests: set[Guest] = set()
        self._retired = False
        #: Runs and sessions that are under way or wait for a guest; counted by the backend.
        self.holders = 0
        self.used = time.monotonic()

    # the zygote

    async def zygote(self, waiting: Waiting | None = None) -> ZygoteProcess:
        """The zygote that makes guests now.  Raises BackendError, ConfigurationError."""
        waiting = waiting or self._waiting
        found = self._fresh()
        if found is not None:
            return found
        if waiting is not self._waiting:
            with self._spawning:
                return await self._renew(waiting)
        await self._starting.acquire()
        try:
            while not self._spawning.acquire(blocking=False):
                await waiting.call(partial(time.sleep, 0.002))
            try:
                return await self._renew(waiting)
            finally:
                self._spawning.release()
        finally:
            self._starting.release()

    def _fresh(self) -> ZygoteProcess | None:
        found = self._zygote
        return found if found is not None and found.alive and not self._is_old(found) else None

    async def _renew(self, waiting: Waiting) -> ZygoteProcess:
        """A new zygote in the place of the last one, unless somebody has just made one."""
        found = self._fresh()
        if found is not None:
            return found
        self._check_open()
        made = await spawned(self._spawn, waiting)
        try:
            with self._lock:
                self._check_open()
                self._unborn = made
            await made.start(waiting)
            with self._lock:
                self._check_open()
                last, self._zygote, self._unborn = self._zygote, made, None
                if last is not None:
                    self._old.append(last)
        except BaseException:
            self._unborn = None
            made.kill()
            raise
        self._drop_ready_of(last)
        return made

    def _check_open(self) -> None:
        if self._retired:
            raise BackendError("running", "the sandbox is closed", "make a new one")

    def _is_old(self, zygote: ZygoteProcess) -> bool:
        return zygote.guests >= RECYCLE_GUESTS or time.monotonic() - zygote.born > RECYCLE_S

    def _spawn(self) -> ZygoteProcess:
        block = None
        config = dict(self.config)
        if uids.available():
            try:
                block = uids.claim()
            except (OSError, ValueError) as error:
                ours = isinstance(error, OSError) and error.filename
                fix = "let root write there" if ours else f"set {uids.VARIABLE} to a free range"
                raise BackendError("finding unused users", error, fix) from None
            config["uids"] = [block.base, block.count]
        place = self._stock.place if self.tier == "isolated" else None
        config["into_groups"] = place is not None and place.supports_clone_into
        try:
            if self.tier != "isolated":
                config["temporary"] = os.path.join(self._boxes, f"b{next(_names)}")
                make_folder(config["temporary"], -1 if block is None else block.base)
            group = leaf(place, f"b{next(_names)}") if config["into_groups"] else None
            zygote = ZygoteProcess.spawn(config, self._environment, group)
        except BaseException as error:
            if block is not None:
                block.release()
            if isinstance(error, OSError):
                raise BackendError("making a zygote's folder", error, "free space where FASTNESS_HOME is") from None
            raise
        zygote.uids = block
        if block is not None:
            self._users[id(zygote)] = list(range(1, block.count))
        return zygote

    # guests

    async def make(
        self, key: Size, waiting: Waiting | None = None, *, ahead: bool = False, early: Early | None = None
    ) -> Guest:
        """
        A new guest whose tree holds ``key`` bytes and files.

        ``early`` is called with it once it is in its control group, while it gives up its rights: the time for its
        limits and its first work.  Raises BackendError, ConfigurationError.
        """
        waiting = waiting or self._waiting
        for attempt in range(3):
            zygote = await self.zygote(waiting)
            try:
                return await self._make(zygote, key, waiting, ahead, early)
            except (BoxLost, BackendError) as lost:
                # A zygote that has just ended takes the guest with it; a new one is worth two more tries.
                if attempt == 2 or zygote.alive or self._retired:
                    if isinstance(lost, BackendError):
                        raise
                    raise BackendError("starting a guest", lost, "run: fastness doctor") from None
        raise AssertionError  # the last try has raised

    async def _make(
        self, zygote: ZygoteProcess, key: Size, waiting: Waiting, ahead: bool, early: Early | None
    ) -> Guest:
        name = f"b{next(_names)}"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        out, out_end = os.pipe2(os.O_CLOEXEC)
        err, err_end = os.pipe2(os.O_CLOEXEC)
        ours.setblocking(False)
        for fd in (out, err):
            os.set_blocking(fd, False)
        box = Box(name, ours, out, err, waiting)
        guest = Guest(box, zygote, key)
        with self._lock:
            self._guests.add(guest)
        # Taken off this list before they are closed: an interrupt in between leaves one open, and closes none twice,
        # whose number might be another's by then.
        ends = [out_end, err_end]
        try:
            request = self._request(guest, zygote, ahead)
            if request["programs"] and guest.uid >= 0:
                # To open /dev/stderr by that name takes being its owner.
                for fd in (out_end, err_end):
                    os.fchown(fd, guest.uid, guest.uid)
            slot = guest.slot = self._stock.take() if self.tier == "isolated" else None
            into = slot is not None and self._stock.place is not None and self._stock.place.supports_clone_into
            if slot is not None and into:
                if guest.uid >= 0 and zygote.uids is not None:
                    slot.delegate(zygote.uids.base)
                request["into_group"] = True
            box.begin()
            into_group = [slot.fd] if slot is not None and into else []
            zygote.request(request, [theirs.fileno(), *ends, *into_group])
            theirs.close()
            while ends:
                os.close(ends.pop())

            def confirm(box: Box) -> None:
                if slot is not None and not into:
                    try:
                        slot.attach(box.pid, cpu=self.config["kind"] == "command", alive=lambda: box.alive)
                    except ProcessLookupError:
                        pass  # it has ended, and what it said of that is to be heard next

                if not zygote.base[0]:
                    # All that are born of one zygote take the same before they are told anything.
                    zygote.base = box.memory()
                guest.base = zygote.base
                if early is not None:
                    early(guest)

            await become_ready(box, confirm)
            return guest
        except BaseException as error:
            theirs.close()
            while ends:
                os.close(ends.pop())
            told = zygote.exit_of(name)
            words = box.last_words()
            self._later(guest)
            if isinstance(error, BoxLost) and told is not None and "why" in told:
                raise BackendError("making a guest", told["why"], "free memory or process slots") from None
            if isinstance(error, BoxLost) and words:
                raise BackendError("starting a guest", words, "please report this") from None
            if isinstance(error, OSError):
                raise BackendError("making a guest", error, "run: fastness doctor") from None
            raise

    def _request(self, guest: Guest, zygote: ZygoteProcess, ahead: bool) -> dict[str, Any]:
        name = guest.box.name
        file_bytes, files, limits = guest.key
        request: dict[str, Any] = {
            "box": name,
            "uid": self.config["guest_uid"],
            "file_bytes": file_bytes,
            "files": files,
            "limits": self._limits(zygote, limits),
            "ahead": ahead,
            "programs": self.config["kind"] == "command",
            "into_group": False,
        }
        if zygote.uids is not None and self.tier == "isolated":
            with self._lock:
                users = self._users[id(zygote)]
                if not users:
                    raise BackendError("making a guest", "the block has no free user", "use fewer guests at once")
                number = users.pop(0)
            guest.uid = zygote.uids.base + number
            guest.inside_uid = number
            request["uid"] = self.config["guest_uid"] + number - 1
        elif zygote.uids is not None:
            guest.uid = zygote.uids.base
        if self.tier == "isolated":
            writable = ["/work", "/tmp"] + (["/dev/shm"] if request["programs"] else [])  # noqa: S108  # of the guest alone
            return request | {"work": "/work", "temporary": "/tmp", "writable": writable}  # noqa: S108  # as above
        folder = guest.folder = os.path.join(self._boxes, name)
        for path in (folder, f"{folder}/work", f"{folder}/tmp"):  # noqa: S108  # folders of ours
            make_folder(path, guest.uid)
        return request | {
            "work": f"{folder}/work",
            "temporary": f"{folder}/tmp",  # noqa: S108  # a folder of ours
            "writable": [f"{folder}/work", f"{folder}/tmp"],  # noqa: S108  # as above
        }

    def _limits(self, zygote: ZygoteProcess, limits: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
        """Limits as the guest sets them; those of memory come on top of what its zygote takes."""
        base = zygote.size()
        more = {resource.RLIMIT_AS: base[0], resource.RLIMIT_DATA: base[2]}
        return [(limit, value + more.get(limit, 0)) for limit, value in limits]

    def take_ready(self, key: Size) -> Guest | None:
        """A guest that waits, if there is one that still lives."""
        self.used = time.monotonic()
        while True:
            with self._lock:
                ready = self._ready.get(key)
                if not ready:
                    return None
                guest = ready.pop(0)
            if guest.zygote is self._zygote and guest.box.alive:
                return guest
            self._later(guest)

    def put_ready(self, guest: Guest) -> None:
        """Let a new guest wait."""
        with self._lock:
            keep = not self._retired and guest.zygote is self._zygote
            if keep:
                self._ready.setdefault(guest.key, []).append(guest)
        if not keep:
            self._later(guest)

    def waiting_count(self, key: Size) -> int:
        """Guests that wait."""
        return len(self._ready.get(key, ()))

    def pids(self) -> list[int]:
        """Processes that this family's caller has started or knows."""
        zygotes = [one.process.pid for one in (self._zygote, *self._old) if one is not None and one.alive]
        return zygotes + [guest.box.pid for ready in self._ready.values() for guest in ready]

    # ends

    def bury(self, guest: Guest) -> None:
        """See a guest to its end: its process, its slot, its folder, its user.  Blocks; idempotent."""
        if guest.buried:
            return
        guest.buried = True
        box = guest.box
        box.kill()
        if not box.wait(_BURY_S):
            # Not even SIGKILL has ended it: nothing of it may be used again.
            box.close()
            with self._lock:
                self._guests.discard(guest)
            return
        box.close()
        guest.zygote.forget(box.name)
        if guest.slot is not None:
            self._stock.give(guest.slot)
        if guest.folder:
            from fastness.runtime import remove_tree

            remove_tree(guest.folder)
        with self._lock:
            self._guests.discard(guest)
            if guest.inside_uid:
                self._users.get(id(guest.zygote), []).append(guest.inside_uid)
        self._end_old()
        if self._retired:
            self._remove_boxes()

    def _end_old(self) -> None:
        """Old zygotes end when their last guest has."""
        with self._lock:
            # A zygote's guests end with it.
            needed = {id(guest.zygote) for guest in self._guests} if self._old else set()
            done = [one for one in self._old if id(one) not in needed or not one.alive]
            self._old = [one for one in self._old if one not in done]
        for zygote in done:
            zygote.kill()
            self._users.pop(id(zygote), None)

    def _drop_ready_of(self, zygote: ZygoteProcess | None) -> None:
        if zygote is None:
            return
        with self._lock:
            dropped = [guest for ready in self._ready.values() for guest in ready if guest.zygote is zygote]
            for ready in self._ready.values():
                ready[:] = [guest for guest in ready if guest.zygote is not zygote]
        for guest in dropped:
            self._later(guest)

    def retire(self) -> None:
        """End the zygote, and with it every guest."""
        with self._lock:
            self._retired = True
            ready = [guest for guests in self._ready.values() for guest in guests]
            self._ready.clear()
            zygotes = [one for one in (self._zygote, self._unborn, *self._old) if one is not None]
            self._zygote, self._unborn, self._old = None, None, []
        for guest in ready:
            guest.box.kill()
        for zygote in zygotes:
            zygote.kill()
        for guest in ready:
            self.bury(guest)
        self._remove_boxes()

    def _remove_boxes(self) -> None:
        """The folder of work folders goes with the last of them."""
        if self._boxes:
            try:
                os.rmdir(self._boxes)
            except OSError:
                pass
