"""
Control group slots: caps on memory, processes and CPU time for one run at a time (``cgroups(7)``).

:func:`find` looks for a place where slots can be made and proves it by making limits bite.  It never looks outside
the control group that this process is in already, so the limits of a container or a service go on holding.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from fastness._linux import cgroup_held, cgroup_probe
from fastness._linux.cgroup_files import HOST, PREFIX, REQUIRED, SLOTS, groups_below, owner_of, remove_group
from fastness._linux.cgroup_find import Place, own_places
from fastness._linux.cgroup_slot import Slot, Slots, Unusable, end_leftovers
from fastness._linux.cgroup_usage import SlotUsage
from fastness._linux.cgroup_v1 import SlotsV1
from fastness._linux.cgroup_v2 import IN_CONTAINER, SlotsV2, base_of

__all__ = ["Reason", "Search", "Slot", "SlotUsage", "Slots", "Unavailable", "end", "find", "sweep"]


class Reason:
    """Why one ``candidate`` (``cgroup2``, ``cgroup1``) cannot be used: the ``cause``, and the ``fix``."""

    __slots__ = ("candidate", "cause", "fix")

    def __init__(self, candidate: str, cause: str, fix: str) -> None:
        self.candidate = candidate
        self.cause = cause
        self.fix = fix

    def __repr__(self) -> str:
        return f"{self.candidate}: {self.cause}. Fix: {self.fix}"


class Unavailable:
    """No slots can be made here; ``reasons`` has one :class:`Reason` for each, what this machine has first."""

    __slots__ = ("reasons",)

    def __init__(self, reasons: list[Reason]) -> None:
        self.reasons = reasons

    def __repr__(self) -> str:
        return "; ".join(map(repr, self.reasons))


def find(owner: str) -> Slots | Unavailable:
    """
    A place for slots of ``owner``, version 2 first, or why there is none.

    ``owner`` names one living host process for good; it is part of the names of all groups and the key of
    :func:`sweep`.  Letters, digits, ``_``, ``.`` and ``-``; anything else raises ``ValueError``.

    With version 2 this process may be moved into a group of its own below its present one; see
    :mod:`fastness._linux.cgroup_v2`.  Starts one process that breaks its limits, which takes tens of milliseconds; the
    kernel's log gets a note of its end.  The caller keeps the answer.
    """
    return Search(owner).finish()


class Search:
    """
    :func:`find` in steps, for a caller with something else to do while the process breaks its limits.

    ``slots`` is the place that is looked at, None where there is none.  Nothing may be run in it before :meth:`finish`
    has said that it holds.
    """

    def __init__(self, owner: str) -> None:
        self.slots: Slots | None = None
        self._owner = owner
        self._reasons: list[Reason] = []
        self._candidates = [_version_2, _version_1]
        self._places: dict[str, Place] = {}
        self._thread: threading.Thread | None = None
        self._failure: str | None = None
        self._broken: BaseException | None = None
        self._found: Slots | Unavailable | None = None
        if _panics():
            # A guest that runs out of its memory would end more than itself; so would the attempt.
            why = "vm.panic_on_oom is 2: a group out of memory stops the machine"
            self._found = Unavailable([Reason("memory", why, "sysctl vm.panic_on_oom=1")])
            return
        try:
            self._places = own_places()
        except OSError as error:
            reason = Reason("cgroup", f"/proc/self/cgroup cannot be read: {error.strerror}", "mount /proc")
            self._found = Unavailable([reason])
            return
        self._next()

    def begin(self) -> None:
        """Have the limits of ``slots`` tried by a thread, whose waits are nobody's then."""
        if self._found is None and self._thread is None:
            thread = threading.Thread(target=self._try, name="fastness-limits", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # there is none to be had: they are tried where they are asked for
            self._thread = thread

    def finish(self) -> Slots | Unavailable:
        """The place, once both limits were seen to hold, or why there is none."""
        while self._found is None:
            if self._thread is not None:
                self._thread.join()
                self._thread = None
            else:
                self._try()
            slots, failure = self.slots, self._failure
            assert slots is not None
            if self._broken is not None:
                slots.close()
                raise self._broken
            if not failure:
                slots.how += ", with both limits seen to hold"
                self._found = slots
                break
            slots.close()
            self._reasons.append(Reason(slots.flavour, failure, f"see how {slots.how} is set up"))
            self._next()
        return self._found

    def _try(self) -> None:
        assert self.slots is not None
        try:
            self._failure = cgroup_probe.bite(self.slots)
        except OSError as error:
            self._failure = f"a slot could not be used: {error}"
        except BaseException as error:  # noqa: BLE001  # raised by finish, whose thread may be another
            self._broken = error

    def _next(self) -> None:
        """Go on to the next candidate that can be used."""
        self.slots = None
        while self._candidates:
            candidate = self._candidates.pop(0)
            try:
                self.slots = candidate(self._owner, self._places)
            except Unusable as why:
                self._reasons.append(Reason(_flavour(candidate), why.cause, why.fix))
            else:
                return
        if _in_version_1(self._places):
            # What is there comes first: a controller is in the hierarchies of one version only.
            self._reasons.reverse()
        self._found = Unavailable(self._reasons)


def _in_version_1(places: dict[str, Place]) -> bool:
    """Whether this machine has the controllers that slots need in version 1 hierarchies."""
    return all(name in places for name in REQUIRED)


def _panics() -> bool:
    """Whether the kernel panics when a control group is out of memory (kernel documentation, ``sysctl/vm``)."""
    try:
        with open("/proc/sys/vm/panic_on_oom", encoding="ascii") as file:
            return file.read().strip() == "2"
    except OSError:
        return False


def _flavour(candidate: Callable[[str, dict[str, Place]], Slots]) -> str:
    return "cgroup2" if candidate is _version_2 else "cgroup1"


def _version_2(owner: str, places: dict[str, Place]) -> Slots:
    if _in_version_1(places):
        raise Unusable(
            f"this machine has {' and '.join(REQUIRED)} in version 1 hierarchies",
            "boot with version 2 (with systemd: systemd.unified_cgroup_hierarchy=1)",
        )
    if "2" not in places:
        raise Unusable(
            "no cgroup2 file system shows the group of this process",
            f"mount cgroup2 on /sys/fs/cgroup; {IN_CONTAINER}",
        )
    return SlotsV2(owner, places["2"])


def _version_1(owner: str, places: dict[str, Place]) -> Slots:
    return SlotsV1(owner, places)


def sweep(alive: Callable[[str], bool]) -> list[str]:
    """
    Remove the groups of owners that are dead, after ending what is left in their slots; returns the groups' names.

    Dead is an owner that no longer holds its groups (:mod:`fastness._linux.cgroup_held`), and one that ``alive`` says
    False for.  It is asked for those that are held, and must say True for every owner that it does not *know* to be
    dead: hosts that keep their owner files elsewhere use the same control group.  Looks below our own group alone.
    Never raises for a group that cannot be removed: it is left, and not in the list.
    """
    removed: set[str] = set()
    try:
        places = own_places()
    except OSError:
        return []
    bases = {base_of(place) if place.hierarchy.version == 2 else place.folder for place in places.values()}
    known: dict[str, bool] = {}
    for base in sorted(bases):
        names = groups_below(base)
        for name in names:
            owner = owner_of(name, SLOTS)
            if owner and _end(f"{base}/{name}", owner, alive, known):
                removed.add(name)
        for name in names:
            owner = owner_of(name, HOST)
            # One that has processes stays: what the host started for other reasons may be in it, and so may a host.
            if owner and not os.path.exists(f"{base}/{PREFIX}{owner}{SLOTS}") and _remove(f"{base}/{name}"):
                removed.add(name)
    return sorted(removed)


def end(owner: str, roots: list[str]) -> None:
    """
    Remove the groups of an owner that is known to be dead, wherever they are, with what is left in them.

    A sweep looks below our own group, and the owner may have been in another.  What is no group of the owner's by its
    name is left alone, as is what cannot be removed.
    """
    for root in roots:
        base, _, name = root.rpartition("/")
        if not owner or owner_of(name, SLOTS) != owner or not os.path.exists(f"{root}/cgroup.procs"):
            continue
        try:
            end_leftovers(root)
        except OSError:
            continue
        if _remove(root):
            _remove(f"{base}/{PREFIX}{owner}{HOST}")


def _end(root: str, owner: str, alive: Callable[[str], bool], known: dict[str, bool]) -> bool:
    """Remove the group that holds the slots of an owner, if that one is dead; whether it is gone."""
    held = cgroup_held.take(root)
    try:
        if held < 0:
            if owner not in known:
                known[owner] = alive(owner)
            if known[owner]:
                return False
        try:
            end_leftovers(root)
        except OSError:
            return False
        return _remove(root)
    finally:
        if held >= 0:
            os.close(held)


def _remove(folder: str) -> bool:
    try:
        remove_group(folder, 0.2)
    except OSError:
        return False
    return True
