"""
Control group slots: caps on memory, processes and CPU time for one run at a time (``cgroups(7)``).

:func:`find` looks for a place where slots can be made and proves it by making limits bite.  It never looks outside
the control group that this process is in already, so the limits of a container or a service go on holding.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fastness._linux import cgroup_held, cgroup_probe
from fastness._linux.cgroup_files import HOST, PREFIX, REQUIRED, SLOTS, groups_below, owner_of, remove_group
from fastness._linux.cgroup_find import Place, own_places
from fastness._linux.cgroup_slot import Slot, Slots, SlotUsage, Unusable, end_leftovers
from fastness._linux.cgroup_v1 import SlotsV1
from fastness._linux.cgroup_v2 import IN_CONTAINER, SlotsV2, base_of

__all__ = ["Reason", "Slot", "SlotUsage", "Slots", "Unavailable", "end", "find", "sweep"]


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
    reasons = []
    if _panics():
        # A guest that runs out of its memory would end more than itself; so would the attempt.
        why = "vm.panic_on_oom is 2: a group out of memory stops the machine"
        return Unavailable([Reason("memory", why, "sysctl vm.panic_on_oom=1")])
    try:
        places = own_places()
    except OSError as error:
        return Unavailable([Reason("cgroup", f"/proc/self/cgroup cannot be read: {error.strerror}", "mount /proc")])
    for candidate in (_version_2, _version_1):
        try:
            slots = candidate(owner, places)
        except Unusable as why:
            reasons.append(Reason(_flavour(candidate), why.cause, why.fix))
            continue
        try:
            failure = cgroup_probe.bite(slots)
        except OSError as error:
            failure = f"a slot could not be used: {error}"
        except BaseException:
            slots.close()
            raise
        if not failure:
            slots.how += ", with both limits seen to hold"
            return slots
        slots.close()
        reasons.append(Reason(slots.flavour, failure, f"see how {slots.how} is set up"))
    if _in_version_1(places):
        # What is there comes first: a controller is in the hierarchies of one version only.
        reasons.reverse()
    return Unavailable(reasons)


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
