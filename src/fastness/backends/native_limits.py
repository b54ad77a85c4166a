"""
Limits of native guests: those that a guest has from its birth, and those that its caller sets before it hears of code.
"""

from __future__ import annotations

import resource

from fastness.backends.box import BoxLost
from fastness.backends.native_guest import Guest, Size
from fastness.errors import BackendError
from fastness.limits import MIB
from fastness.runs import RunRequest
from fastness.tier import Tier

#: Bytes beside the run's own memory and files that a guest's slot allows: page tables, the kernel's own, rounding.
_SLOT_SLACK = 16 * MIB
#: Bytes of address space beside the run's memory where the control group is what counts: arenas and stacks reserve more
#: than they use.
_RESERVE = 256 * MIB
#: More than a guest has open while it gives up its rights; one that may have fewer gets its limits after that.
FDS_AT_BIRTH = 128
#: Seconds of processor time of a session's guest in its whole life.  The kernel counts over all executes and a process
#: without power never gets a limit back, so what bounds an execute, and the time between two, is this side's look.
_LIFE_S = 7 * 86_400
#: A Python guest may send descriptors by this number alone, and only while it is born (``data/seccomp/guest.json``), so
#: none may have it again.
_FDS_MOST = 1020


def at_birth(tier: Tier, request: RunRequest, *, session: bool = False) -> Size:
    """
    What is decided at a guest's birth.

    A confined guest may be of another user than a caller who is root without the power to limit it, so it limits
    itself; in ``isolated`` the caller has that power.
    """
    limits = request.limits
    own: tuple[tuple[int, int], ...] = ()
    if tier is Tier.CONFINED:
        own = (
            (resource.RLIMIT_CPU, _seconds(request, session)),
            (resource.RLIMIT_NOFILE, _fds(request)),
            (resource.RLIMIT_FSIZE, max(1, limits.file_bytes)),
            (resource.RLIMIT_AS, limits.memory),
            (resource.RLIMIT_DATA, limits.memory),
        )
        if request.stack is not None:
            own += ((resource.RLIMIT_STACK, request.stack),)
    return limits.file_bytes, limits.files, own


def _seconds(request: RunRequest, session: bool) -> int:
    return _LIFE_S if session else int(request.limits.cpu_s) + 2


def bound(tier: Tier, guest: Guest, request: RunRequest, *, session: bool = False) -> None:
    """Set the run's limits on a guest that has not heard of its code yet.  Raises BackendError, BoxLost."""
    if tier is Tier.CONFINED or (guest.bound_to == request.limits and request.stack is None):
        return
    limits, box = request.limits, guest.box
    try:
        _bound_group(guest, request)
        for what, value in _own(guest, request, session=session):
            # The kernel ends the first process of a namespace only at the hard limit; the soft one is told as a signal.
            box.limit(what, value, value + 1 if what == resource.RLIMIT_CPU else None)
        if not box.alive:
            # Its number may have become another's meanwhile.
            raise BoxLost("the guest has ended")
        guest.bound_to = limits
    except ProcessLookupError as error:
        raise BoxLost("the guest has ended") from error
    except (OSError, ValueError) as error:
        raise BackendError("setting a guest's limits", error, "run: fastness doctor") from None


def _own(guest: Guest, request: RunRequest, *, session: bool) -> list[tuple[int, int]]:
    """Limits of the guest's process itself in ``isolated``."""
    limits = request.limits
    space, _, data = guest.base
    found = [(resource.RLIMIT_CPU, _seconds(request, session)), (resource.RLIMIT_NOFILE, _fds(request))]
    if request.runtime == "python":
        reserve = _RESERVE if guest.slot is not None else 0
        found.append((resource.RLIMIT_AS, space + limits.memory + reserve))
        found.append((resource.RLIMIT_DATA, data + limits.memory))
    if request.stack is not None:
        # The kernel looks when a stack grows; those of threads have the size that they were made with.
        found.append((resource.RLIMIT_STACK, request.stack))
    # In a user namespace, or as a user, of its own a guest is counted alone.  Where it has a group, that one is met
    # first, for it counts what it refuses.
    found.append((resource.RLIMIT_NPROC, limits.pids + _first(request) + (guest.slot is not None)))
    return found


def bound_unborn(tier: Tier, guest: Guest, request: RunRequest, *, session: bool) -> None:
    """
    Limit the group of a guest that is not born yet, and have the guest limit itself.

    Only for one whose birth is our code alone: packages that nobody here has read could leave their limits out.
    """
    if tier is Tier.CONFINED:
        return
    try:
        _bound_group(guest, request)
    except (OSError, ValueError):
        # It is tried again from outside, where what fails is told.
        return
    guest.own_limits = [
        # Both limits are the same at birth, and this one is told as a signal at the lower one only.
        (what, value + 1 if what == resource.RLIMIT_CPU else value)
        for what, value in _own(guest, request, session=session)
    ]
    guest.bound_to = request.limits


def layers(tier: Tier, guest: Guest) -> dict[str, str]:
    """What keeps each guarantee: the guest's own word from before it heard of foreign code, and its group."""
    found = {name.upper(): text for name, text in guest.box.ready.layers.items() if name != "denials_recorded"}
    found["DENIALS_RECORDED"] = guest.box.ready.layers.get("denials_recorded", "partial")
    if guest.zygote.unrecorded(guest.box.name):
        found["DENIALS_RECORDED"] = "partial"
    if tier is Tier.ISOLATED:
        kept = guest.slot.flavour if guest.slot is not None else "rlimit+nofork"
        found["TOTAL_MEM_CAP"] = kept
        found["PIDS_CAP"] = f"{kept}+rlimit" if guest.slot is not None else "rlimit+nofork"
    return found


def bound_early(tier: Tier, request: RunRequest, guest: Guest) -> None:
    """
    What of :func:`bound` a guest that is made ahead gets already.

    Only its group's limits: the next request may be another, and a process's own limits can be raised again by nobody
    but a caller with ``CAP_SYS_RESOURCE`` (setrlimit(2)).
    """
    if tier is Tier.CONFINED:
        return
    try:
        _bound_group(guest, request)
    except (OSError, ValueError) as error:
        raise BackendError("setting a guest's limits", error, "run: fastness doctor") from None


def _fds(request: RunRequest) -> int:
    return min(request.limits.fds, _FDS_MOST) if request.runtime == "python" else request.limits.fds


def _first(request: RunRequest) -> int:
    """A program's first process is ours."""
    return 1 if request.runtime == "command" else 0


def _bound_group(guest: Guest, request: RunRequest) -> None:
    limits = request.limits
    if guest.slot is None or guest.group_bound_to == limits:
        return
    memory = limits.memory + limits.file_bytes + guest.base[1] + _SLOT_SLACK
    guest.slot.configure(memory=memory, pids=limits.pids + _first(request), cpus=None)
    guest.group_bound_to = limits
