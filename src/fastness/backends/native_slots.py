"""
Control group slots of this process: where they can be made, and which are free.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import threading

from fastness._linux import cgroup
from fastness._linux.cgroup_slot import Slot, Slots, end_leftovers
from fastness.errors import BackendError, TierUnavailable
from fastness.runtime import Owner, claim, note_groups
from fastness.tier import Guarantee, ProbeFailure, Tier

_numbers = itertools.count(1)
_places_lock = threading.Lock()
_places: dict[int, _Place] = {}


class _Place:
    """This process's folder, and the search for its control groups."""

    def __init__(self) -> None:
        try:
            self.owner = claim()
        except OSError as error:
            fix = "free space and files where FASTNESS_HOME, or XDG_RUNTIME_DIR, is"
            raise BackendError("making this process's folder", error, fix) from error
        self.search = cgroup.Search(self.owner.id)
        self._noted = False
        # What is registered last runs first, so this comes before the owner's own end.
        atexit.register(_leave, os.getpid(), self)

    def groups(self) -> cgroup.Slots | cgroup.Unavailable:
        """The control groups, proven."""
        found = self.search.finish()
        if not self._noted and not isinstance(found, cgroup.Unavailable):
            self._noted = True
            try:
                note_groups(self.owner, found.roots)
            except OSError:
                pass  # the folder has gone: a sweep from the same control group finds them without
        return found


def begin() -> cgroup.Slots | None:
    """
    Have :func:`place` looked for, and proven meanwhile; where groups will be if that holds, None where there are none.

    Raises BackendError.
    """
    with _places_lock:
        search = _place().search
        search.begin()
        return search.slots


def place() -> tuple[Owner, cgroup.Slots | cgroup.Unavailable]:
    """This process's folder and its control groups, looked for once.  Raises BackendError."""
    with _places_lock:
        found = _place()
        try:
            return found.owner, found.groups()
        except BaseException:
            # The proof was broken off, and the next caller begins with another.
            _places.clear()
            raise


def _place() -> _Place:
    pid = os.getpid()
    found = _places.get(pid)
    if found is None or found.owner.released:
        _places.clear()
        found = _places[pid] = _Place()
    return found


def _in_child() -> None:
    # Another thread of the parent may have held it, and there is none here that would let go.
    global _places_lock  # noqa: PLW0603  # one place for groups in a process
    _places_lock = threading.Lock()
    for found in _places.values():
        if found.search.slots is not None:
            # The locks belong to the open files, which the parent goes on holding.
            found.search.slots.let_go()


os.register_at_fork(after_in_child=_in_child)


def _leave(pid: int, found: _Place) -> None:
    """Remove every group of this process as it ends, with whatever is left in it."""
    owner = found.owner
    if os.getpid() != pid or owner.released:
        return
    slots = found.groups()
    if isinstance(slots, cgroup.Unavailable):
        return
    for root in slots.roots:
        try:
            end_leftovers(root)
        except OSError:
            pass
    slots.close()
    if any(os.path.isdir(root) for root in slots.roots):
        # The name of the owner is what a later sweep knows these by.
        owner.abandon()


def in_words() -> str:
    """Where this process's control groups are, or that there are none."""
    found = place()[1]
    return "none usable" if isinstance(found, cgroup.Unavailable) else found.how


def no_groups(tier: Tier) -> TierUnavailable:
    """Why programs cannot be run here: nothing caps their processes together."""
    found = place()[1]
    reasons = found.reasons if isinstance(found, cgroup.Unavailable) else []
    # Of the others there is no more to say than that this machine's controllers are elsewhere.
    failures = tuple(
        ProbeFailure(guarantee=Guarantee.TOTAL_MEM_CAP.value, cause=f"{r.candidate}: {r.cause}", remedy=r.fix)
        for r in reasons[:1]
    )
    return TierUnavailable(tier.value, failures, reason="a program's processes cannot be capped together here")


def programs_in_words() -> str:
    """Whether programs can be run here, and how their processes are capped or what would let them be."""
    found = place()[1]
    what = "programs (command=, fastness exec)"
    if isinstance(found, cgroup.Unavailable):
        first = found.reasons[0]
        return f"{what} cannot be run here: {first.cause}. Fix: {first.fix}"
    return f"{what} can be run here; what caps a run's processes together: {found.how}"


def leaf(place: Slots | None, name: str) -> Slot:
    """
    A group for a zygote itself, beside the slots: who forks into a group needs a say over what lies above both.

    It has no limits, for a zygote's memory is what guests share.  Raises BackendError.
    """
    assert place is not None
    try:
        return place.new(f"z{name}")
    except OSError as error:
        raise BackendError("making a control group", error, "run: fastness doctor") from None


class SlotStock:
    """Control group slots of this process, made when needed and used again.  None exist where ``place`` is None."""

    def __init__(self, place: Slots | None) -> None:
        self.place = place
        self._free: list[Slot] = []
        self._lock = threading.Lock()
        self._closed = False

    def take(self) -> Slot | None:
        """A free slot, or None where there are none at all.  Raises BackendError."""
        if self.place is None:
            return None
        with self._lock:
            if self._free:
                return self._free.pop()
        try:
            # All sandboxes of a process make theirs in one place.
            return self.place.new(f"s{next(_numbers)}")
        except OSError as error:
            raise BackendError("making a control group", error, "run: fastness doctor") from None

    def give(self, slot: Slot, *, quiet: bool = False) -> None:
        """
        Take a slot back; one that still holds a process is emptied, and one that cannot be is left to a sweep.

        ``quiet`` as for :meth:`fastness._linux.cgroup_slot.Slot.reset`.
        """
        try:
            try:
                slot.reset(quiet=quiet)
            except OSError:
                slot.kill()
                slot.remove()
                return
        except OSError:
            slot.files.close()
            return
        with self._lock:
            if not self._closed:
                self._free.append(slot)
                return
        with contextlib.suppress(OSError):
            slot.remove()

    def close(self) -> None:
        """Remove the slots that are free, and from now on those that come back."""
        with self._lock:
            free, self._free = self._free, []
            self._closed = True
        for slot in free:
            with contextlib.suppress(OSError):
                slot.remove()
