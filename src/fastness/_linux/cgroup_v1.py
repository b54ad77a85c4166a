"""
Slots in version 1 hierarchies: ``memory`` and ``pids``, with ``cpu`` and ``cpuacct`` where they are there.

A slot is one group in each hierarchy.  Every group is made below our own group of that hierarchy, so a limit that
our container or service has goes on holding (kernel documentation, ``admin-guide/cgroup-v1``).
"""

from __future__ import annotations

import errno
import os

from fastness._linux.cgroup_files import (
    PERIOD_US,
    PREFIX,
    REQUIRED,
    SLOTS,
    check_name,
    counter,
    numbers,
    read,
    swap_is_off,
    write,
)
from fastness._linux.cgroup_find import Place, holds_us
from fastness._linux.cgroup_slot import Slot, Slots, Unusable

_OPTIONAL = ("cpu", "cpuacct")


class SlotV1(Slot):
    """A slot of version 1."""

    flavour = "cgroup1"

    def __init__(self, name: str, folders: list[str], where: dict[str, str]) -> None:
        super().__init__(name, folders, where["pids"])
        # Where each controller's files of this slot are.
        self._where = where
        memory = where["memory"]
        self._has_memsw = os.path.exists(f"{memory}/memory.memsw.limit_in_bytes")
        # The files count up to a limit that is not one; it is what the slot holds before anything is written.
        self._memsw = counter(memory, "memory.memsw.limit_in_bytes") if self._has_memsw else None
        if numbers(read(memory, "memory.oom_control")).get("oom_kill_disable"):
            # Inherited: at the limit processes would wait for ever and not end.
            write(memory, "memory.oom_control", "0")

    def _essential(self) -> list[str]:
        # Each hierarchy is a move of its own, which the kernel makes wait for all processors.
        return list(dict.fromkeys(self._where[name] for name in REQUIRED))

    def entrances(self, *, cpu: bool = True) -> list[int]:
        self._everywhere = self._everywhere or cpu
        # The file that takes single threads: for one that moves itself by it, nothing has to stand still.
        return [self.files.writable(folder, "tasks") for folder in (self._folders if cpu else self._essential())]

    def _mark_again(self, *, quiet: bool) -> None:
        if self._everywhere or not quiet or not self._base:
            self._mark()
            return
        # Nobody asks what one process has used at its most, its own numbers say so; and it was in no group that counts
        # processor time.  Kills are counted all the same: it may have answered well and then gone on.
        for key in ("oom", "pids"):
            self._base[key] = self._count(key)
        self._stale = True

    def _limit(self, memory: int, pids: int, quota: int | None) -> None:
        self._limit_memory(memory)
        self._hold(self._where["pids"], "pids.max", str(pids))
        cpu = self._where.get("cpu")
        if cpu is not None:
            if quota is not None:
                self._hold(cpu, "cpu.cfs_period_us", str(PERIOD_US))
            self._hold(cpu, "cpu.cfs_quota_us", str(-1 if quota is None else quota))
        elif quota is not None:
            raise OSError(errno.ENOTSUP, "no cpu controller limits processor time here")

    def _limit_memory(self, memory: int) -> None:
        folder = self._where["memory"]
        if not self._has_memsw:
            # Memory alone is capped: what does not fit would go to swap, without end.
            if not swap_is_off():
                raise OSError(errno.ENOTSUP, "this kernel does not count swap, and this machine has swap")
            self._hold(folder, "memory.limit_in_bytes", str(memory))
            return
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        # The limit with swap is never below the one without, also between the two writes.
        if self._memsw is not None and memory > self._memsw:
            names.reverse()
        for name in names:
            self._hold(folder, name, str(memory))
        self._memsw = memory

    def _unthrottle(self) -> None:
        cpu = self._where.get("cpu")
        if cpu is not None and self._held.pop((cpu, "cpu.cfs_quota_us"), "-1") != "-1":
            write(cpu, "cpu.cfs_quota_us", "-1")

    def _count(self, key: str) -> int | None:
        if key == "oom":
            return self.files.counter(self._where["memory"], "memory.oom_control", "oom_kill")
        if key == "pids":
            return self.files.counter(self._where["pids"], "pids.events", "max")
        cpu = self._where.get("cpuacct")
        return counter(cpu, "cpuacct.usage") if cpu else None

    def _cpu_us(self, count: int) -> int:
        return count // 1000

    @property
    def _peak_file(self) -> str:
        return "memory.memsw.max_usage_in_bytes" if self._has_memsw else "memory.max_usage_in_bytes"

    def _peak(self) -> int | None:
        return counter(self._where["memory"], self._peak_file)

    def _reset_peak(self) -> None:
        write(self._where["memory"], self._peak_file, "0")


class SlotsV1(Slots):
    """Slots of version 1, below our own group of each hierarchy."""

    flavour = "cgroup1"

    def __init__(self, owner: str, places: dict[str, Place]) -> None:
        """
        Make the groups that hold the slots; raises :class:`Unusable`.

        ``places`` are our own groups by controller, as :func:`fastness._linux.cgroup_find.own_places` gives them.
        """
        check_name(owner, "the owner of slots")
        _check(places)
        used = {name: places[name] for name in REQUIRED}
        used.update({name: places[name] for name in _OPTIONAL if name in places and _can_be_used(places[name])})
        super().__init__(owner, [], "")
        #: Root of our slots by controller; controllers that are mounted together share one.
        self._by_controller: dict[str, str] = {}
        for controller, place in used.items():
            root = f"{place.folder}/{PREFIX}{owner}{SLOTS}"
            if root not in self.roots:
                try:
                    self._make_root(root)
                except OSError as error:
                    if controller in REQUIRED:
                        self.close()
                        raise _cannot_make(place, error, list(used.values())) from None
                    continue
                self.roots.append(root)
            self._by_controller[controller] = root
        self.how = f"cgroup v1 ({', '.join(self._by_controller)}) below {used['memory'].folder}"
        self.controls_cpu = "cpu" in self._by_controller

    def _slot(self, name: str, folders: list[str]) -> Slot:
        return SlotV1(name, folders, {key: f"{root}/{name}" for key, root in self._by_controller.items()})


def _check(places: dict[str, Place]) -> None:
    """Raise :class:`Unusable` where what is visible cannot be used, before anything is made."""
    missing = [name for name in REQUIRED if name not in places]
    if missing:
        raise Unusable(
            f"no cgroup v1 hierarchy with {' and '.join(missing)} shows the group of this process",
            "mount the hierarchies of these controllers, or boot with cgroup v2",
        )
    for name in REQUIRED:
        place = places[name]
        if place.mount.read_only:
            raise Unusable(
                f"the {name} hierarchy at {place.mount.point} is mounted read-only",
                "use cgroup v2, or mount the container's own groups writable",
            )
        try:
            ours = holds_us(place.folder)
        except OSError as error:
            raise Unusable(f"{place.folder} cannot be read: {error.strerror}", "mount the whole hierarchy") from None
        if not ours:
            raise Unusable(
                f"{place.folder} should be this process's {name} group and does not hold it",
                "mount the hierarchy as this cgroup namespace sees it",
            )
    memory = places["memory"]
    if counter(memory.folder, "memory.use_hierarchy") == 0 and memory.hierarchy.path != "/":
        # What a group below uses is not counted for such a one: the limit of our container would not hold.
        raise Unusable(
            f"{memory.folder} does not count what groups below it use (memory.use_hierarchy is 0)",
            "set memory.use_hierarchy to 1 before the group has children, or use cgroup v2",
        )


def _can_be_used(place: Place) -> bool:
    """Whether groups of an optional controller can be made; a hierarchy with cpuset takes no process into a new one."""
    try:
        return "cpuset" not in place.hierarchy.controllers and holds_us(place.folder)
    except OSError:
        return False


def _cannot_make(place: Place, error: OSError, needed: list[Place]) -> Unusable:
    cause = f"no group can be made in {place.folder}: {error.strerror}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unusable(cause, f"run as root, or have root give groups to this user: {_give(needed)}")
    return Unusable(cause, f"make {place.folder} writable")


def _give(needed: list[Place]) -> str:
    """The commands with which root gives a user groups, below those that the user's processes are in already."""
    folders = " ".join(dict.fromkeys(place.folder for place in needed))
    return (
        f"for g in {folders}; do mkdir $g/NAME; chown -R {os.geteuid()} $g/NAME; "
        "echo PID > $g/NAME/cgroup.procs; done (PID is the shell that starts the program)"
    )
