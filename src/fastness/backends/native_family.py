"""
A zygote and the guests that it makes: started when first needed, kept ready ahead, used once, seen to their end.

One family serves one tenant with one set of preloaded modules.  A guest that waits is confined already and sits in a
control group slot where there are any; slots hold one guest at a time and are given back when its last process is gone.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from fastness._native import datagrams
from fastness.backends import native_birth, native_folders
from fastness.backends.box import Box, BoxLost, become_ready
from fastness.backends.native_guest import Early, Guest, Size, unborn
from fastness.backends.native_ready import Ready
from fastness.backends.native_slots import SlotStock
from fastness.backends.zygote_process import ZygoteProcess
from fastness.errors import BackendError

if TYPE_CHECKING:
    from fastness._linux.cgroup_slot import Slot
    from fastness.backends.native_spawn import Outfit
    from fastness.waiting import Waiting

#: After so many guests, or so many seconds, a zygote is replaced: all its guests have the same addresses and hash seed.
RECYCLE_GUESTS = 5_000
RECYCLE_S = 900.0
#: Guests of other kinds that may wait, where nobody has asked for more.
_READY_MOST = 8
#: Seconds within which a killed guest has ended, or something is wrong with the machine.
_BURY_S = 10.0

_names = count(1)


class Family:
    """Guests of one kind, of zygotes with this ``outfit``; ``first`` is one that was begun already."""

    def __init__(
        self,
        outfit: Outfit,
        waiting: Waiting,
        stock: SlotStock,
        bury: Callable[[Guest], None],
        first: ZygoteProcess | None = None,
    ) -> None:
        self._outfit = outfit
        self.config = outfit.config
        self.tier: str = outfit.config["tier"]
        self._programs: bool = outfit.config["kind"] == "command"
        #: Whether guests run nothing of packages that nobody here has read before they are told anything.
        self._plain: bool = not self._programs and not outfit.config["preload"]
        self._waiting = waiting
        self._stock = stock
        self._boxes = outfit.boxes
        self._folders = native_folders.Folders(outfit.boxes, lambda: f"b{next(_names)}")
        self._later = bury
        self._lock = threading.Lock()
        #: Of those who wait as the sandbox does, one sees to a new zygote; the keeper's thread waits in its own way.
        self._starting = waiting.slots(1)
        self._spawning = threading.Lock()
        self._zygote: ZygoteProcess | None = None
        self._users: dict[int, list[int]] = {}
        #: One that was begun, and may not be ready yet.
        self._unborn: ZygoteProcess | None = None if first is None else self._know(first)
        self._old = list[ZygoteProcess]()
        self._ready = Ready()
        #: Guests of other kinds that may wait beside those of the kind that was asked for last.
        self.ready_most = _READY_MOST
        self._guests: set[Guest] = set()
        self._retired = False
        #: Runs and sessions that are under way or wait for a guest; counted by the backend.
        self.holders = 0
        #: Whether the last of them could call the host, as the next one will then most likely too.
        self.calls = False
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
                await waiting.pause(0.002)
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
        made = self._unborn
        if made is None or not made.alive:
            made = await waiting.call(self._begin)
        try:
            await made.start(waiting)
            with self._lock:
                self._check_open()
                last, self._zygote, self._unborn = self._zygote, made, None
                if last is not None:
                    self._old.append(last)
        except BaseException as error:
            with self._lock:
                # Whose time was up has only stopped to listen: it gets ready all the same, and the next one who asks
                # goes on from there.
                going_on = self._unborn is made and not isinstance(error, Exception)
                if self._unborn is made and not going_on:
                    self._unborn = None
            if not going_on:
                made.kill()
                self._remove_boxes()
            raise
        self._drop_ready_of(last)
        self._folders.keep_only(-1 if made.uids is None else made.uids.base)
        return made

    def _begin(self) -> ZygoteProcess:
        """Start a zygote.  Who asked may be gone by the time that it has begun, so it is kept here until it is used."""
        made = self._spawn()
        with self._lock:
            last = self._unborn
            if self._retired:
                dropped: ZygoteProcess | None = made
            elif last is not None and last.alive:
                # Somebody who was cancelled has left it meanwhile.
                dropped, made = made, last
            else:
                dropped, self._unborn = last, made
        if dropped is not None:
            dropped.kill()
        self._check_open()
        return made

    def _check_open(self) -> None:
        if self._retired:
            raise BackendError("running", "the sandbox is closed", "make a new one")

    def _is_old(self, zygote: ZygoteProcess) -> bool:
        return zygote.guests >= RECYCLE_GUESTS or time.monotonic() - zygote.born > RECYCLE_S

    def _spawn(self) -> ZygoteProcess:
        return self._know(self._outfit.spawn())

    def _know(self, zygote: ZygoteProcess) -> ZygoteProcess:
        """Have the users of a new zygote ready to be given to its guests."""
        if zygote.uids is not None:
            self._users[id(zygote)] = list(range(1, zygote.uids.count))
        return zygote

    # guests

    async def make(
        self, key: Size, waiting: Waiting | None = None, *, ahead: bool = False, early: Early | None = None
    ) -> Guest:
        """
        A new guest whose tree holds ``key`` bytes and files.

        ``early`` sees to its limits and its first work.  Raises BackendError, ConfigurationError.
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
        try:
            # The ends are taken off this list before they are closed: an interrupt in between leaves one open, and
            # closes none twice, whose number might be another's by then.
            box, ends = unborn(f"b{next(_names):0{datagrams.NAME - 1}d}", waiting)
        except OSError as error:
            raise BackendError("making a guest", error, "free descriptors, or use fewer guests at once") from None
        guest = Guest(box, zygote, key)
        with self._lock:
            self._guests.add(guest)
        try:
            self._give_user(guest)
            request = native_birth.request(guest, self.config, self._folders, ahead=ahead, calls=self.calls)
            if request["programs"] and guest.uid >= 0:
                # To open /dev/stderr by that name takes being its owner.
                for fd in ends[1:]:
                    os.fchown(fd, guest.uid, guest.uid)
            slot = guest.slot = self._stock.take() if self.tier == "isolated" else None
            into = self._place(guest, slot, request, ends)
            box.begin()
            if early is not None and zygote.base[0] and self._plain and (slot is None or into):
                guest.base = zygote.base
                early.unborn(guest)
                request["limits"] += guest.own_limits
            await zygote.request(request, [*ends, *into], waiting)
            while ends:
                os.close(ends.pop())
            if slot is not None:
                slot.sent()

            def confirm(box: Box) -> None:
                if slot is not None and not into:
                    try:
                        slot.attach(box.pid, cpu=self._programs, alive=lambda: box.alive)
                    except ProcessLookupError:
                        pass  # it has ended, and what it said of that is to be heard next

                if not zygote.base[0]:
                    # All that are born of one zygote take the same before they are told anything.
                    zygote.base = box.memory()
                guest.base = zygote.base
                if early is not None:
                    early.born(guest)

            await become_ready(box, confirm, zygote)
            return guest
        except BaseException as error:
            while ends:
                os.close(ends.pop())
            told = zygote.exit_of(box.name)
            words = box.last_words()
            self._later(guest)
            if isinstance(error, BoxLost) and told is not None and "why" in told:
                raise BackendError("making a guest", told["why"], "free memory or process slots") from None
            if isinstance(error, BoxLost) and words:
                raise BackendError("starting a guest", words, "please report this") from None
            if isinstance(error, OSError):
                raise BackendError("making a guest", error, "run: fastness doctor") from None
            raise

    def _place(self, guest: Guest, slot: Slot | None, request: dict[str, Any], ends: list[int]) -> list[int]:
        """
        Have the guest be born in its slot, by the descriptor that this returns, or move there first of all.

        Where neither can be it has to be put in.  A guest of packages that nobody here has read does not move itself:
        they could keep what opens the slot.
        """
        place = self._stock.place
        if slot is None or place is None:
            return []
        if place.supports_clone_into:
            if guest.uid >= 0 and guest.zygote.uids is not None:
                slot.delegate(guest.zygote.uids.base)
            request["into_group"] = True
            return [slot.fd]
        if not self.config["preload"]:
            entrances = slot.entrances(cpu=self._programs)
            request["entrances"] = len(entrances)
            return entrances
        return []

    def _give_user(self, guest: Guest) -> None:
        """Let the guest have a user of its own where there are any."""
        block = guest.zygote.uids
        if block is None:
            return
        if self.tier != "isolated":
            guest.uid = block.base
            return
        with self._lock:
            users = self._users[id(guest.zygote)]
            if not users:
                raise BackendError("making a guest", "the block has no free user", "use fewer guests at once")
            guest.inside_uid = users.pop(0)
        guest.uid = block.base + guest.inside_uid

    def take_ready(self, key: Size) -> Guest | None:
        """A guest that waits, if there is one that still lives."""
        self.used = time.monotonic()
        while True:
            with self._lock:
                guest = self._ready.take(key)
            if guest is None:
                return None
            if guest.zygote is self._zygote and guest.box.alive:
                return guest
            self._later(guest)

    def put_ready(self, guest: Guest) -> None:
        """Let a new guest wait."""
        with self._lock:
            keep = not self._retired and guest.zygote is self._zygote
            dropped = self._ready.put(guest, self.ready_most) if keep else [guest]
        for one in dropped:
            self._later(one)

    def waiting_count(self, key: Size) -> int:
        """Guests that wait."""
        return self._ready.count(key)

    def pids(self) -> list[int]:
        """Processes that this family's caller has started or knows."""
        zygotes = [one.process.pid for one in (self._zygote, *self._old) if one is not None and one.alive]
        with self._lock:
            return zygotes + [guest.box.pid for guest in self._ready.values()]

    # ends

    def bury(self, guest: Guest) -> None:
        """See a guest to its end: its process, its slot, its folder, its user.  Blocks; idempotent."""
        if guest.buried:
            return
        guest.buried = True
        box = guest.box
        box.kill()
        # Where not even SIGKILL has ended it, nothing of it may be used again.
        gone = box.wait(_BURY_S)
        if box.process < 0:
            # It may be born yet, and its end of the conversation is what tells it to end.
            box.close()
            gone = guest.zygote.settled(box.name, _BURY_S)
        box.close()
        guest.zygote.forget(box.name)
        try:
            if gone and guest.slot is not None:
                self._stock.give(guest.slot, quiet=not (self._programs or guest.in_doubt))
            if gone and guest.folder:
                self._folders.give(guest.folder, guest.uid, again=self._plain)
        except OSError:
            pass  # left to the end of this process, or to a sweep
        finally:
            with self._lock:
                self._guests.discard(guest)
                if gone and guest.inside_uid:
                    self._users.get(id(guest.zygote), []).append(guest.inside_uid)
            self._end_old()
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
            dropped = self._ready.drop(zygote)
        for guest in dropped:
            self._later(guest)

    def retire(self) -> None:
        """End the zygote, and with it every guest."""
        with self._lock:
            self._retired = True
            ready = self._ready.drop()
            zygotes = [one for one in (self._zygote, self._unborn, *self._old) if one is not None]
            self._zygote, self._unborn, self._old = None, None, []
        for guest in ready:
            guest.box.kill()
        for zygote in zygotes:
            zygote.kill()
        self._folders.close()
        for guest in ready:
            self.bury(guest)
        self._remove_boxes()

    def _remove_boxes(self) -> None:
        """The folder of work folders goes with the last of them, once there will be no more."""
        if self._boxes and self._retired:
            with contextlib.suppress(OSError):
                os.rmdir(self._boxes)
