"""
Slots in the version 2 hierarchy (kernel documentation, ``admin-guide/cgroup-v2``).

All groups are made below our own group, which root or a service manager must have given to us.  Apart from the root
of the hierarchy, a group whose children have controllers may hold no process itself.  Where our own group holds
nothing but this process and its descendants, they are therefore moved into a group below it, ``fastness-<owner>-host``;
where it holds others, nothing is touched and :class:`Unusable` says what to do.

::

    our group/
        fastness-<owner>-host/       this process, only where it had to move
        fastness-<owner>-slots/      controllers are on for what is below
            <name>/                  one slot
"""

from __future__ import annotations

import ctypes as C
import errno
import os
import time

from fastness._linux import procs
from fastness._linux.cgroup_files import (
    HOST,
    PERIOD_US,
    PREFIX,
    REQUIRED,
    SLOTS,
    check_name,
    counter,
    owner_of,
    read,
    remove_group,
    swap_is_off,
    write,
)
from fastness._linux.cgroup_find import Place, holds_us, members
from fastness._linux.cgroup_slot import KILL_S, Slot, Slots, Unusable
from fastness._linux.syscalls import CLONE_INTO_CGROUP, raw

_OPTIONAL = ("cpu",)
#: Rounds of moving processes that go on making children.
_ROUNDS = 32

IN_CONTAINER = (
    "in a container: docker run --cgroupns=private --security-opt writable-cgroups=true (Docker 28 or later), "
    "podman run --security-opt unmask=/sys/fs/cgroup, in a compose file 'cgroup: private' and the same security_opt, "
    "in a pod cgroup_writable of containerd's runtime or the annotation io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw "
    "of CRI-O"
)


def scope_command() -> str:
    """The command that gives a program a group of its own on a machine with systemd."""
    user = "" if os.geteuid() == 0 else "--user "
    return f"systemd-run {user}--scope -p Delegate=yes -- <command>"


#: The kernel's counters: their files and their names in these.
_COUNTERS = {"oom": ("memory.events", "oom_kill"), "pids": ("pids.events", "max"), "cpu": ("cpu.stat", "usage_usec")}


class SlotV2(Slot):
    """A slot of version 2."""

    flavour = "cgroup2"

    def __init__(self, name: str, folder: str, limits_cpu: bool) -> None:
        super().__init__(name, [folder], folder)
        self._folder = folder
        self._limits_cpu = limits_cpu
        # Decided when the machine was started.
        self._counts_swap = os.path.exists(f"{folder}/memory.swap.max")
        self.fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # Since Linux 6.12 a peak can be set back, for the descriptor that did it alone.
        self._peak_fd = -1
        self._peak_base = 0
        try:
            self._peak_fd = os.open(f"{folder}/memory.peak", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            pass

    def _limit(self, memory: int, pids: int, quota: int | None) -> None:
        folder = self._folder
        if self._counts_swap:
            self._hold(folder, "memory.swap.max", "0")
        elif not swap_is_off():
            raise OSError(errno.ENOTSUP, "this kernel does not count swap, and this machine has swap")
        # One process out of memory ends the whole run, not the process that happens to be the largest.
        self._hold(folder, "memory.oom.group", "1")
        self._hold(folder, "memory.max", str(memory))
        self._hold(folder, "pids.max", str(pids))
        if self._limits_cpu:
            self._hold(folder, "cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}")
        elif quota is not None:
            raise OSError(errno.ENOTSUP, "no cpu controller limits processor time here")

    def _unthrottle(self) -> None:
        if self._limits_cpu and not self._held.pop((self._folder, "cpu.max"), "max").startswith("max"):
            write(self._folder, "cpu.max", f"max {PERIOD_US}")

    def _count(self, key: str) -> int | None:
        return counter(self._folder, *_COUNTERS[key])

    def _peak(self) -> int | None:
        if self._peak_fd >= 0:
            return int(os.pread(self._peak_fd, 64, 0))
        peak = counter(self._folder, "memory.peak")
        # Without setting back it is this run's own peak only where it went above all earlier ones.
        return peak if peak is not None and peak > self._peak_base else None

    def _reset_peak(self) -> None:
        if self._peak_fd >= 0:
            try:
                os.write(self._peak_fd, b"0\n")
            except OSError:
                # An older kernel opens it for writing and takes nothing.
                os.close(self._peak_fd)
                self._peak_fd = -1
            else:
                return
        if self._base:
            self._peak_base = counter(self._folder, "memory.peak") or 0

    def delegate(self, uid: int) -> None:
        """
        Let a process of host user ``uid`` put its children into this slot with ``clone3``; raises ``OSError``.

        The kernel asks for write permission on ``cgroup.procs`` of the slot and of the nearest group that is above
        both the process and the slot.  So the process must be in another slot of the same owner, and that group is
        the one that holds our slots; it can hold no process itself, so nobody can be moved to it.

        Where the file system is mounted with ``nsdelegate`` the process must not have left for a cgroup namespace of
        its own: both groups must be visible in it.
        """
        for folder in (self._folder, os.path.dirname(self._folder)):
            path = f"{folder}/cgroup.procs"
            if os.stat(path).st_uid != uid:
                os.chown(path, uid, -1)

    def kill(self) -> None:
        """End every process in the slot; see :meth:`Slot.kill`.  Since Linux 5.14 the kernel does it in one step."""
        self._unthrottle()
        try:
            write(self._folder, "cgroup.kill", "1")
        except FileNotFoundError:
            self._kill_each()
            return
        end = time.monotonic() + KILL_S
        pause = 0.0005
        while left := self.processes():
            if time.monotonic() > end:
                raise OSError(errno.EBUSY, f"processes survive in the control group: {left[:8]}", self._folder)
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def remove(self) -> None:
        """Remove the slot; see :meth:`Slot.remove`."""
        if self._peak_fd >= 0:
            os.close(self._peak_fd)
            self._peak_fd = -1
        super().remove()


class SlotsV2(Slots):
    """Slots of version 2, below our own group."""

    flavour = "cgroup2"

    def __init__(self, owner: str, place: Place) -> None:
        """
        Make the group that holds the slots, with its controllers on; raises :class:`Unusable`.

        ``place`` is our own group.  Nothing is changed where this raises.
        """
        check_name(owner, "the owner of slots")
        self._base = base = base_of(place)
        offered = _offered(base, place)
        root = f"{base}/{PREFIX}{owner}{SLOTS}"
        #: The group that our processes were moved to, and the controllers that we turned on for our group's children.
        self._moved = ""
        self._added: list[str] = []
        super().__init__(owner, [root], "")
        try:
            on = self._make(offered)
        except OSError as error:
            self.close()
            raise _refused(base, error) from None
        except Unusable:
            self.close()
            raise
        self.controls_cpu = "cpu" in on
        self.supports_clone_into = knows_clone_into()
        self.how = f"cgroup v2 ({', '.join(on)}) below {base}"

    def _slot(self, name: str, folders: list[str]) -> Slot:
        return SlotV2(name, folders[0], self.controls_cpu)

    def _make(self, offered: list[str]) -> list[str]:
        """Make the group that holds the slots; returns the controllers that slots have."""
        for last in (False, False, True):
            try:
                self._make_root(self.roots[0])
                before = read(self._base, "cgroup.subtree_control").split()
                self._moved = _open(self._base, self.owner) or self._moved
                on = _enable(self._base, offered)
                self._added += [name for name in on if name not in before]
                return _enable(self.roots[0], on)
            except OSError as error:
                # Another owner's last slots went at this moment, and it put our group back as it was.
                if last or error.errno not in (errno.ENOENT, errno.EBUSY):
                    raise
        raise AssertionError

    def close(self) -> None:
        """
        As :meth:`Slots.close`; afterwards our own group is as it was before, controllers and processes.

        The kernel does not take controllers away that another owner's slots use: then they stay, and so does a
        process that was moved.  Its group goes with :func:`fastness._linux.cgroup.sweep` when its owner is dead.
        """
        super().close()
        try:
            if not is_root(self._base):
                while self._added:
                    write(self._base, "cgroup.subtree_control", f"-{self._added[-1]}")
                    self._added.pop()
            if self._moved:
                _move(self._moved, self._base)
                remove_group(self._moved)
                self._moved = ""
        except OSError:
            return


def base_of(place: Place) -> str:
    """The folder of our own group; of the group above where ours is one that a host of this package moved to."""
    parent, _, name = place.folder.rpartition("/")
    if owner_of(name, HOST) and place.folder != place.mount.point:
        return parent
    return place.folder


def is_root(folder: str) -> bool:
    """Whether this is the real root of the hierarchy, where processes and controllers go together."""
    return not os.path.exists(f"{folder}/cgroup.type")


def _offered(base: str, place: Place) -> list[str]:
    """The controllers that our own group can hand down; raises :class:`Unusable`."""
    try:
        ours = holds_us(place.folder)
        offered = read(base, "cgroup.controllers").split()
    except OSError as error:
        raise Unusable(f"{place.folder} cannot be used: {error.strerror}", scope_command()) from None
    if not ours:
        raise Unusable(
            f"{place.folder} should be this process's group and does not hold it",
            "mount cgroup2 as this cgroup namespace sees it",
        )
    missing = [name for name in REQUIRED if name not in offered]
    if missing:
        raise Unusable(
            f"the controllers {' and '.join(missing)} are not handed down to {base}",
            scope_command(),
        )
    if place.mount.read_only:
        raise Unusable(f"{place.mount.point} is mounted read-only", IN_CONTAINER)
    return [name for name in (*REQUIRED, *_OPTIONAL) if name in offered]


def _open(base: str, owner: str) -> str:
    """
    Make room for controllers below ``base``; returns the group that our processes were moved to, or nothing.

    Raises :class:`Unusable` where others are in the way, and ``OSError``.
    """
    on = read(base, "cgroup.subtree_control").split()
    if all(name in on for name in REQUIRED) or is_root(base):
        return ""
    present = members(base)
    if not present:
        return ""
    family = {os.getpid(), *procs.descendants(os.getpid())}
    strangers = [pid for pid in present if pid not in family]
    if strangers:
        raise Unusable(
            f"{base} holds processes that are not ours, such as {strangers[0]}, so it cannot hand controllers down",
            f"start the program in a group of its own: {scope_command()}; {IN_CONTAINER}, with the program as the "
            "container's first process",
        )
    host = f"{base}/{PREFIX}{owner}{HOST}"
    try:
        os.mkdir(host, 0o755)
    except FileExistsError:
        pass
    try:
        _move(base, host)
    except OSError:
        _move_quietly(host, base)
        raise
    return host


def _move(source: str, target: str) -> None:
    """Move every process of one group to another; raises ``OSError``."""
    for _ in range(_ROUNDS):
        present = members(source)
        if not present:
            return
        for pid in present:
            try:
                write(target, "cgroup.procs", str(pid))
            except ProcessLookupError:
                continue
    raise OSError(errno.EBUSY, "processes keep coming up in the control group", source)


def _move_quietly(source: str, target: str) -> None:
    try:
        _move(source, target)
        remove_group(source)
    except OSError:
        return


def _enable(folder: str, names: list[str]) -> list[str]:
    """Turn controllers on for groups below ``folder``; returns which are on.  Raises ``OSError`` for a required one."""
    on = read(folder, "cgroup.subtree_control").split()
    for name in names:
        if name not in on:
            try:
                write(folder, "cgroup.subtree_control", f"+{name}")
            except OSError:
                if name in REQUIRED:
                    raise
    on = read(folder, "cgroup.subtree_control").split()
    return [name for name in names if name in on]


def _refused(base: str, error: OSError) -> Unusable:
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unusable(f"{base} is not ours to use: {error.strerror}", f"{scope_command()}; {IN_CONTAINER}")
    if error.errno == errno.EROFS:
        return Unusable(f"{base} is mounted read-only", IN_CONTAINER)
    return Unusable(f"{base} cannot be used: {error.strerror}", f"{scope_command()}; {IN_CONTAINER}")


def knows_clone_into() -> bool:
    """
    Whether ``clone3`` takes a control group here: since Linux 5.7, and where no filter answers for the kernel.

    Asked with a descriptor that cannot be open: the kernel then says ``EBADF`` before there is a child.
    """
    # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
    # set_tid_size, cgroup.
    arguments = (C.c_uint64 * 11)(CLONE_INTO_CGROUP, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0x7FFFFFFF)
    try:
        # SAFETY: the kernel reads 88 bytes of `arguments`, which outlives the call, and makes no process, since the
        # highest number of all is above every limit on open files.
        raw("clone3", C.addressof(arguments), C.sizeof(arguments))
    except OSError as error:
        return error.errno == errno.EBADF
    return False
