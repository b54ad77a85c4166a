"""
Which limit a native guest met that ended badly: the kernel refuses it room or a process, and the guest tells nobody.

Read off the guest's own file system and its control group.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from fastness.limits import in_units
from fastness.runs import Outcome, OutcomeKind
from fastness.tier import Tier

if TYPE_CHECKING:
    from fastness.backends.base import Report
    from fastness.backends.native_guest import Guest
    from fastness.limits import Limits
    from fastness.runs import RunRequest

#: How the interpreter says that the kernel refused it a thread.
_NO_THREAD = "can't start new thread"


def told(report: Report, tier: Tier, guest: Guest, request: RunRequest) -> Report:
    """
    The report of a run of ``isolated`` with the limit that it met, where the kernel still shows one.

    A command that failed and has filled its tree ended as ``disk``: its status alone says nothing of that.
    """
    outcome = report.outcome
    if tier is not Tier.ISOLATED or outcome.kind not in (OutcomeKind.GUEST_ERROR, OutcomeKind.DISK):
        return report
    command = request.runtime == "command"
    kind, more = outcome.kind, ""
    if command or kind is OutcomeKind.DISK:
        more = _full(guest.box.work, request.limits)
        if more:
            kind = OutcomeKind.DISK
    if kind is OutcomeKind.GUEST_ERROR and _denied(guest, outcome.detail, command=command):
        more = f"it met its limit of {request.limits.pids} processes and threads (pids)"
    if not more:
        return report
    detail = f"{outcome.detail}; {more}" if outcome.detail else more
    changed: Outcome = msgspec.structs.replace(outcome, kind=kind, detail=detail)
    made: Report = msgspec.structs.replace(report, outcome=changed)
    return made


def _full(work: int, limits: Limits) -> str:
    """What of the guest's file system is used up, in words, or nothing."""
    try:
        state = os.fstatvfs(work)
    except OSError:
        return ""
    if not state.f_ffree:
        return f"it met its limit of {limits.files} files and folders (files)"
    if not state.f_bfree:
        return f"its files met their limit of {in_units(limits.file_bytes)} (file_bytes)"
    return ""


def _denied(guest: Guest, detail: str, *, command: bool) -> bool:
    """Whether the guest was refused a process or a thread."""
    if guest.slot is not None:
        return bool(guest.slot.pids_denied()) and (command or _NO_THREAD in detail)
    return _NO_THREAD in detail
