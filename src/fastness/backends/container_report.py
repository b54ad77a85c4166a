"""
What came of a run in a container: its files as they arrived on this side, and how its guest ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fastness._container import containers
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness._container.typed import as_table
from fastness.backends import native_report
from fastness.backends.base import Report
from fastness.backends.container_box import ContainerBox
from fastness.runner.collect import Collected, Refused, collect
from fastness.runs import DenialCode, Outcome, OutcomeKind
from fastness.tier import Guarantee

if TYPE_CHECKING:
    from fastness._container.probe import Engine
    from fastness.backends.native_talk import Talk
    from fastness.limits import Limits
    from fastness.runner.entries import Project

_INSPECT_S = 2.0
#: Seconds by which clocks of this process and of a control group may differ.
_SLACK_S = 1.0
#: Why a container's first process ended its guest.
_WHY = {
    "cpu": (OutcomeKind.CPU, ""),
    "deadline": (OutcomeKind.TIMEOUT, ""),
    "tasks": (OutcomeKind.CRASHED, "it had more processes and threads than it may have"),
}


def layers(engine: Engine | None, gvisor: bool = False) -> dict[str, str]:
    """What keeps each guarantee in a container of this engine."""
    version = engine.cgroup_version if engine is not None else ""
    group = f"cgroup{version}"
    found = {
        Guarantee.ENV_SCRUBBED: "the image's environment",
        Guarantee.ADDRESS_SPACE: "container",
        Guarantee.WALL_KILL: "host+first process",
        Guarantee.MEM_CAP: f"{group}+rlimit",
        Guarantee.OUTPUT_CAP: "reader",
        Guarantee.CRASH_CONTAINED: "container",
        Guarantee.FS_CONFINED: "mountns",
        Guarantee.NET_CONFINED: "netns+seccomp",
        Guarantee.SYSCALL_FILTERED: "seccomp",
        Guarantee.NO_NEW_PRIVS: "prctl",
        Guarantee.NO_PRIVILEGE: "capset",
        Guarantee.PID_HIDDEN: "pidns",
        Guarantee.PIDS_CAP: group,
        Guarantee.TOTAL_MEM_CAP: group,
        Guarantee.OWN_ROOT: "mountns+read-only",
        Guarantee.IMAGE_ROOT: engine.driver if engine is not None else "image",
        Guarantee.OWN_UID: "user of the image",
    }
    if gvisor:
        found |= {Guarantee.SYSCALL_FILTERED: "gVisor", Guarantee.NET_CONFINED: "netns+gVisor"}
        found[Guarantee.PIDS_CAP] = "first process"
    return {str(name): text for name, text in found.items()}


def collected(box: ContainerBox, folder: int, before: Mapping[str, Any] | Project, limits: Limits) -> Collected:
    """What arrived in ``folder``.  Raises ``OSError``."""
    pump = box.pump
    if not pump.whole:
        return Collected(complete=False)
    found = collect(folder, before, max_bytes=limits.file_bytes, max_files=limits.files)
    if skipped := pump.skipped:
        count = found.refused_dropped + skipped
        found = msgspec.structs.replace(found, refused_dropped=count, complete=False)
    if pump.beyond:
        why = f"more than {limits.file_bytes} bytes or {limits.files} entries; it and others did not come"
        row = Refused(pump.beyond, why, DenialCode.QUOTA)
        found = msgspec.structs.replace(found, refused=(*found.refused, row), complete=False)
    return found


def report(talk: Talk, found: Collected, *, session: bool, queued: float, engine: Engine | None) -> Report:
    """The report of this invoke."""
    box = talk.box
    assert isinstance(box, ContainerBox)
    pump = box.pump
    usage = pump.over or pump.usage
    if pump.bad and talk.reason is None:
        talk.reason = (OutcomeKind.PROTOCOL, pump.bad)
    why = str(usage.get("why"))
    if talk.result is None and talk.reason is None and why in _WHY:
        talk.reason = _WHY[why]
    # A first process that is somebody else's may tell anything; more than the processors had to give it cannot be.
    spent = min(_seconds(usage), box.kind.ask.cpus * (time.monotonic() - box.born) + _SLACK_S)
    ended: dict[str, Any] | None = None
    killed = bool(_count(usage, "oom"))
    if pump.over is not None:
        status = usage.get("status")
        ended = {"status": status if type(status) is int and 0 <= status < 1 << 16 else 9, "rss": 0}
        ended["cpu"] = spent
    elif talk.gone and talk.reason is None:
        killed, ended = _from_engine(box, engine)
    talk.memory = max(talk.memory, box.peak())
    talk.cpu_s = max(talk.cpu_s, spent)
    made = native_report.report(
        talk,
        ended=ended,
        collected=found,
        records=[],
        out_of_memory=killed,
        layers=layers(engine, box.kind.gvisor),
        session=session,
        queued=queued,
    )
    if not found.complete and not pump.whole and made.outcome.kind is not OutcomeKind.PROTOCOL:
        # The run's own end stands; that its files did not come must not look like there being none.
        why = f"what it left was not handed over{f' ({pump.broken})' if pump.broken else ''}"
        detail = "; ".join(filter(None, (made.outcome.detail, why)))
        kind = OutcomeKind.CRASHED if made.outcome.ok else made.outcome.kind
        outcome = Outcome(kind, detail, made.outcome.signal, made.outcome.dropped_bytes)
        made = msgspec.structs.replace(made, outcome=outcome)
    if talk.request.bind is not None:
        # That folder can be read and changed, and has no end but the disk's; a socket in it leads to who listens there.
        files, network = Guarantee.FS_CONFINED.value, Guarantee.NET_CONFINED.value
        shown = {
            **made.layers,
            files: "mountns, but for /work: a folder of this machine, without a quota",
            network: f"{made.layers[network]}, but for sockets in /work, a folder of this machine",
        }
        made = msgspec.structs.replace(made, layers=shown, lacks=(files, network))
    return made


def _from_engine(box: ContainerBox, engine: Engine | None) -> tuple[bool, dict[str, Any] | None]:
    """Whether a container whose first process has ended met its memory limit, and how that process ended."""
    if engine is None:
        return False, None
    try:
        state = as_table(containers.inspect(engine, box.container, Deadline(_INSPECT_S)).get("State"))
    except EngineFault:
        return False, None
    code = state.get("ExitCode")
    status = (code - 128 if code > 128 else code << 8) if type(code) is int and 0 <= code < 256 else 9
    return bool(state.get("OOMKilled")), {"status": status, "rss": 0, "cpu": 0.0}


def _count(usage: dict[str, Any], name: str) -> int:
    found = usage.get(name, 0)
    return found if type(found) is int and found >= 0 else 0


def _seconds(usage: dict[str, Any]) -> float:
    found = usage.get("cpu", 0.0)
    return float(found) if type(found) in (int, float) and 0 <= found < 1e9 else 0.0
