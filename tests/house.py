"""
What every test may need: components that must be there, and what a test run must not leave behind.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from fastness._linux import cgroup, cgroup_find, cgroup_held, cgroup_v2, procs

SOURCE = Path(__file__).resolve().parents[1] / "src"

#: Processes of ours end within this many seconds after the sandbox that started them was closed, or its owner died.
PROCESS_GRACE_S = 2.0
#: Folders get longer: another Fastness process of this user may own one, and it will remove it.
FOLDER_GRACE_S = 10.0
#: A group is nobody's for a moment when its maker has just made it, and when a sweep is about to take it.
GROUP_GRACE_S = 0.5

# ---------------------------------------------------------------------------------------------------------- components


def _landlock() -> str:
    from fastness._linux import landlock

    return "" if landlock.abi() else "this kernel has no Landlock"


def _confinement() -> str:
    from fastness._linux import why_unsupported

    return why_unsupported()


def _wasmtime() -> str:
    from fastness._wasi import binding
    from fastness.errors import FastnessError

    try:
        binding.find_library()
    except FastnessError as error:
        return str(error)
    return ""


def _guest(name: str) -> str:
    from fastness._wasi import builder
    from fastness.errors import FastnessError

    if must_be_there():
        # The first run builds it; a test that needs it waits for that.
        return ""
    try:
        ready = builder.full_ready(name)
    except FastnessError as error:
        return f"the {name} guest cannot be had: {error}"
    return "" if ready else f"the {name} guest is not built; run: fastness guest build {name}"


def _control_groups() -> str:
    from fastness._linux import cgroup

    found = cgroup.find(f"there-{os.getpid()}")
    if isinstance(found, cgroup.Unavailable):
        return repr(found)
    found.close()
    return ""


def _virtual_machine() -> str:
    folder = str(Path(__file__).parent / "qemu")
    if folder not in sys.path:
        sys.path.append(folder)
    import fetch_vm

    return fetch_vm.missing()


def _tier(name: str) -> str:
    import fastness

    try:
        with fastness.Sandbox(tier=name) as sandbox:
            probe = sandbox.probe()
    except fastness.TierUnavailable as error:
        return str(error)
    return "" if probe.holds else f"the tier {name} does not hold here: {probe.failures}"


#: Each says what is missing, or nothing.
COMPONENTS: dict[str, Callable[[], str]] = {
    "landlock": _landlock,
    "confinement": _confinement,
    "wasmtime": _wasmtime,
    "python guest": lambda: _guest("python"),
    "javascript guest": lambda: _guest("javascript"),
    "control groups": _control_groups,
    "virtual machine": _virtual_machine,
    "worker tier": lambda: _tier("worker"),
    "confined tier": lambda: _tier("confined"),
    "isolated tier": lambda: _tier("isolated"),
}


#: What an ordinary user has only where somebody gave it to them, so that its absence says nothing of the machine.
GIVEN = frozenset({"control groups"})


def must_be_there() -> bool:
    """Whether a missing component is a failure: continuous integration must not pass by skipping."""
    return os.environ.get("FASTNESS_REQUIRE_ALL") == "1"


def missing(component: str) -> str:
    """Why ``component`` is missing, or nothing; what is there once is not looked for again."""
    check = COMPONENTS[component]
    if check in _there:
        return ""
    why = check()
    if not why:
        _there.add(check)
    return why


_there: set[Callable[[], str]] = set()


def require(component: str) -> None:
    """Skip the test where ``component`` is missing; fail it where everything must be there."""
    why = missing(component)
    if not why:
        return
    if component in GIVEN and os.geteuid():
        pytest.skip(why)
    lacks(f"{component}: {why}")


def lacks(why: str) -> NoReturn:
    """Skip the test for want of something that every machine can have; fail it where everything must be there."""
    if must_be_there():
        pytest.fail(f"{why} (FASTNESS_REQUIRE_ALL=1)", pytrace=False)
    pytest.skip(why)


def examples(count: int) -> int:
    """How many examples a property gets: ``count``, times FASTNESS_EXAMPLES in long runs."""
    return count * max(1, int(os.environ.get("FASTNESS_EXAMPLES", "1")))


# ----------------------------------------------------------------------------------------------------------- leftovers


class Leftovers:
    """
    Finds what came into being after it was made and is still there.

    ``scratch`` is the folder of this test run: a background build is meant to outlive its command, unless it serves
    a cache in there.
    """

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._since = procs.start_time(os.getpid()) or 0
        self._folders = set(_folders())
        self._mounts = set(_mounts())
        self._groups = set(free_groups())
        self._before = set(procs.descendants(os.getpid()))
        self._above = {1}
        above = os.getppid()
        while above > 1:
            self._above.add(above)
            above = parent_of(above)

    def processes(self) -> list[str]:
        """Our children and theirs, and processes of ours whose parent has died; each with its command."""
        mine = set(procs.descendants(os.getpid())) - self._before
        for entry in os.listdir("/proc"):
            if entry.isdigit() and self._is_orphan(int(entry)):
                mine.add(int(entry))
        return [f"process {pid}: {command_of(pid)[:200]}" for pid in sorted(mine) if not self._is_meant(pid)]

    def _is_orphan(self, pid: int) -> bool:
        """Of our package, started in our time, and adopted: by the first process, or by one above this that adopts."""
        command = command_of(pid)
        if "from fastness." not in command and "-m fastness" not in command:
            return False
        return parent_of(pid) in self._above and (procs.start_time(pid) or 0) >= self._since

    def _is_meant(self, pid: int) -> bool:
        """A background build and what it started: it outlives its command on purpose, within limits of its own."""
        while pid > 1:
            command = command_of(pid)
            if "fastness._wasi.background" in command:
                return self._scratch not in command
            pid = parent_of(pid)
        return False

    def folders(self) -> list[str]:
        """Temporary folders of ours that appeared, but for those that a living process outside this run has made."""
        mine = {os.getpid(), *procs.descendants(os.getpid())}
        new = sorted(set(_folders()) - self._folders)
        return [
            f"folder {path}" for path in new if (maker := _maker(path)) in mine or not Path(f"/proc/{maker}").exists()
        ]

    def mounts(self) -> list[str]:
        """Mounts of ours that appeared."""
        return [f"mount {point}" for point in sorted(set(_mounts()) - self._mounts)]

    def groups(self) -> list[str]:
        """Control groups that appeared and whose owner has ended."""
        return [f"control group {path}" for path in free_groups() if path not in self._groups]

    def find(
        self,
        process_grace_s: float = PROCESS_GRACE_S,
        folder_grace_s: float = FOLDER_GRACE_S,
        group_grace_s: float = GROUP_GRACE_S,
    ) -> list[str]:
        """
        Everything that is left after it had time to go; empty in the good case, and then at once.

        Control groups are removed once they are told: there is no other end to them.
        """
        found = _settle(self.processes, process_grace_s)
        found += _settle(self.mounts, 0.0)
        groups = _settle(self.groups, group_grace_s)
        if groups:
            cgroup.sweep(lambda owner: True)
        found += groups
        found += _settle(self.folders, folder_grace_s)
        return found


def _settle(look: Callable[[], list[str]], grace_s: float) -> list[str]:
    end = time.monotonic() + grace_s
    while (left := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def command_of(pid: int) -> str:
    """The arguments of a process, with spaces between them; empty where it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def state_of(pid: int) -> str:
    """The letter of its state and where it waits, for messages; empty where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state = stat.read().rpartition(b") ")[2][:1].decode()
        with open(f"/proc/{pid}/wchan") as place:
            return f"{state} {place.read()}"
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """The parent's process id; 0 where the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def apart_from(before: set[int]) -> set[int]:
    """
    Processes below this one that are neither in ``before`` nor started by one that is.

    A sandbox that tests share makes its next guest whenever its last one was taken, and that may be now.
    """
    return {one for one in procs.descendants(os.getpid()) if one not in before and not _came_of(one, before)}


def _came_of(pid: int, before: set[int]) -> bool:
    while (pid := parent_of(pid)) not in (0, 1, os.getpid()):
        if pid in before:
            return True
    return False


def _folders() -> list[str]:
    return [str(path) for place in {tempfile.gettempdir(), "/var/tmp"} for path in Path(place).glob("fastness-*")]


def _maker(path: str) -> int:
    """The process that a folder's name names, ``fastness-KIND-PID-RANDOM``; 0 where it names none."""
    fields = Path(path).name.split("-")
    return int(fields[2]) if len(fields) > 3 and fields[2].isdigit() else 0


def group_bases() -> list[str]:
    """The folders that control groups of this process are made in, one for each hierarchy."""
    try:
        places = cgroup_find.own_places().values()
    except OSError:
        return []
    return sorted({cgroup_v2.base_of(place) if place.hierarchy.version == 2 else place.folder for place in places})


def free_groups() -> list[str]:
    """Groups with slots that nobody holds: their owners have ended."""
    free = []
    for path in sorted(str(path) for base in group_bases() for path in Path(base).glob("fastness-*-slots")):
        held = cgroup_held.take(path)
        if held >= 0:
            os.close(held)
            free.append(path)
    return free


def _mounts() -> list[str]:
    """Mount points that carry our name (proc(5), ``mountinfo``: the fifth field)."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    # An engine that was running before these tests, and goes on after them, looks after its own.
    attached = os.environ.get("FASTNESS_TEST_ENGINE", "").rpartition(":")[2]
    return [one for one in places if "fastness" in one and not (attached and one.startswith(f"{attached}/"))]


def forgotten_sandboxes() -> list[str]:
    """Sandboxes that a test made and did not close; the process-wide default ones are closed here."""
    sync = sys.modules.get("fastness.sync")
    if sync is None:
        return []
    for sandbox in list(sync._default.values()):
        sandbox.close()
    sync._default.clear()
    return [f"open sandbox {sandbox._options!r}"[:200] for sandbox in sync._all]
