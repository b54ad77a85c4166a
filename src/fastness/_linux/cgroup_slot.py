"""
What slots of both versions share: limits that are written and read back, processes, their end, removal.

A slot is one control group (one in each hierarchy with version 1) that holds one run at a time.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from fastness._linux import cgroup_held
from fastness._linux.cgroup_files import (
    check_name,
    groups_below,
    pages,
    quota_us,
    read,
    remove_group,
    write,
)
from fastness._linux.cgroup_find import members, own_places
from fastness._linux.cgroup_open import OpenFiles
from fastness._linux.cgroup_usage import SlotUsage
from fastness._linux.procs import pidfd_open, pidfd_send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds for killed processes to be gone.
KILL_S = 5.0
#: Seconds for them to be reaped.
_REAP_S = 1.0


class Unusable(Exception):
    """Why one candidate for slots cannot be used: the ``cause``, and the ``fix``."""

    def __init__(self, cause: str, fix: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix


class Slot:
    """
    One control group that holds one run at a time.  A slot is used by one thread at a time.

    ``flavour`` is ``cgroup1`` or ``cgroup2``.  ``fd`` is a descriptor of the group's folder (``O_PATH``) for
    ``clone3(CLONE_INTO_CGROUP)`` with version 2, and -1 with version 1.  ``name`` is the name it was made with.
    """

    flavour = ""

    def __init__(self, name: str, folders: list[str], pids: str = "") -> None:
        self.name = name
        self.fd = -1
        self._folders = folders
        # Which of the folders has the pids controller's files.
        self._pids = pids or next((folder for folder in folders if os.path.exists(f"{folder}/pids.max")), "")
        #: What was written and read back, by file; a file that is not in here will be written.
        self._held: dict[tuple[str, str], str] = {}
        #: Whether there is more to count from anew than :meth:`reset` has set back.
        self._used = False
        #: Whether a process was moved to all of the folders, and not to the essential ones alone.
        self._everywhere = False
        #: Whether something is left to be counted from anew before many processes may use it.
        self._stale = False
        self._base: dict[str, int | None] = {}
        #: What of it is open.
        self.files = OpenFiles()

    def configure(self, *, memory: int, pids: int, cpus: float | None) -> None:
        """
        Set the limits and start counting, where :meth:`reset` has not just done so; returns when they hold.

        ``memory`` in bytes caps memory and swap together, rounded down to whole pages; ``pids`` caps processes and
        threads; ``cpus`` is a number of processors, None for no limit of its own.  Limits that hold already cost
        nothing.  Raises ``OSError`` where the kernel refused one or holds something else than was asked for.
        """
        if pids < 1:
            raise OSError(errno.EINVAL, f"a limit of {pids} processes lets nothing run")
        self._limit(pages(memory), pids, None if cpus is None else quota_us(cpus))
        if self._used or not self._base or (self._stale and self._everywhere):
            self._mark()
        self._used = True

    def _limit(self, memory: int, pids: int, quota: int | None) -> None:
        raise NotImplementedError

    def _hold(self, folder: str, name: str, value: str) -> None:
        """Write ``value`` unless it holds, and believe only what is read back."""
        if self._held.get((folder, name)) == value:
            return
        self._held.pop((folder, name), None)
        write(folder, name, value)
        seen = read(folder, name)
        if seen != value:
            raise OSError(errno.EIO, f"{name} holds {seen} where {value} was written", f"{folder}/{name}")
        self._held[folder, name] = value

    def attach(self, pid: int, *, cpu: bool = True, alive: Callable[[], bool] | None = None) -> None:
        """
        Move process ``pid``, with all its threads, into the slot; its children are not moved.

        Without ``cpu`` its processor time is neither counted nor limited where that takes a move of its own.

        What it used before stays charged to the group it came from.  The kernel waits for all processors, so this
        takes milliseconds.  Raises ``OSError``; the process may then be in the slot in part and must be ended.

        Groups take numbers only.  ``alive`` says whether the process that is meant still has this one, and is asked
        once it was moved: if not, whatever has the number is put where this process is, for what is in a slot is
        killed when the slot is taken back, and ``ProcessLookupError`` is raised.
        """
        if pid < 1:
            # The kernel would take 0 for the process that writes.
            raise OSError(errno.ESRCH, f"no process has number {pid}")
        folders = self._folders if cpu else self._essential()
        self._everywhere = self._everywhere or cpu
        for folder in folders:
            write(folder, "cgroup.procs", str(pid))
        if alive is not None and not alive():
            self._put_back(pid, folders)
            raise ProcessLookupError(errno.ESRCH, f"process {pid} has ended")

    def _put_back(self, pid: int, folders: list[str]) -> None:
        ours = [place.folder for place in own_places().values()]
        for folder in folders:
            if pid in members(folder):
                # With version 1 each hierarchy has a folder of its own; with version 2 there is one in all.
                above = [one for one in ours if folder.startswith(f"{one}/")] or ours
                try:
                    write(above[0], "cgroup.procs", str(pid))
                except ProcessLookupError:
                    return

    def _essential(self) -> list[str]:
        """The groups that a process must be in for memory and processes to be limited."""
        return self._folders

    def entrances(self, *, cpu: bool = True) -> list[int]:
        """
        Descriptors by which a process of one thread moves itself into the slot: it writes ``0`` to each.

        The kernel waits for no other processor then, as it does in :meth:`attach`.  Who holds one can put any process
        in, so they go to none that has run foreign code.  They are open until :meth:`sent`; there are none with
        version 2, where a child can be born in the slot.  ``cpu`` as in :meth:`attach`.  Raises ``OSError``.
        """
        return []

    def sent(self) -> None:
        """Others have their :meth:`entrances`, or nobody wants them."""
        self.files.spare()

    def delegate(self, uid: int) -> None:
        """
        Let a process of host user ``uid`` put its children into this slot with ``clone3``; raises ``OSError``.

        With version 1 there is nothing that could be given away, and nothing is done.
        """

    def usage(self) -> SlotUsage:
        """What was used since :meth:`configure`."""
        return SlotUsage(self.memory_peak(), self.oom_kills(), self.cpu_us(), self.pids_denied())

    # Each of them alone: whoever looks again and again wants one, and each is a file.

    def memory_peak(self) -> int | None:
        """As in :class:`SlotUsage`."""
        return self._peak()

    def oom_kills(self) -> int | None:
        """As in :class:`SlotUsage`."""
        return self._since("oom")

    def cpu_us(self) -> int | None:
        """As in :class:`SlotUsage`."""
        count = self._since("cpu")
        return None if count is None else self._cpu_us(count)

    def pids_denied(self) -> int | None:
        """As in :class:`SlotUsage`."""
        return self._since("pids")

    def _since(self, key: str) -> int | None:
        last, first = self._count(key), self._base.get(key)
        return None if last is None or first is None else max(0, last - first)

    def _count(self, key: str) -> int | None:
        """One of the kernel's counters, which only go up: ``oom``, ``cpu`` or ``pids``."""
        raise NotImplementedError

    def _cpu_us(self, count: int) -> int:
        return count

    def _peak(self) -> int | None:
        raise NotImplementedError

    def _reset_peak(self) -> None:
        raise NotImplementedError

    def _mark(self) -> None:
        self._reset_peak()
        self._base = {key: self._count(key) for key in ("oom", "cpu", "pids")}
        self._stale = False

    def _mark_again(self, *, quiet: bool) -> None:
        """As :meth:`_mark`, without what cannot have changed."""
        self._mark()

    def processes(self) -> list[int]:
        """Processes in the slot now; 0 for one that this process number namespace does not know."""
        folders = self._folders if self._everywhere else self._essential()
        return sorted({pid for folder in folders for pid in members(folder)})

    def kill(self) -> None:
        """
        End every process in the slot; returns when all are gone, zombies apart.

        Raises ``OSError`` (``EBUSY``) where some are still there after seconds.
        """
        self._unthrottle()
        self._kill_each()

    def _unthrottle(self) -> None:
        """Lift the CPU limit: a killed process needs the processor to end, and would wait for its next share."""

    def _kill_each(self) -> None:
        """
        Forbid new processes, then kill those that there are until none is left.

        With ``pids.max`` at 0 every fork fails that has not begun, so the number can only go down.
        """
        end = time.monotonic() + KILL_S
        if self._pids:
            self._held.pop((self._pids, "pids.max"), None)
            write(self._pids, "pids.max", "0")
        pause = 0.0005
        while pids := self.processes():
            self._kill_these(pids)
            if time.monotonic() > end:
                raise OSError(errno.EBUSY, f"processes survive in the control group: {pids[:8]}", self._folders[0])
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _kill_these(self, pids: list[int]) -> None:
        """
        Kill processes by descriptors that were opened while they were in the slot.

        A number is looked for in the slot again after its descriptor was opened, so it cannot be another's.
        """
        opened: dict[int, int] = {}
        try:
            for pid in pids:
                try:
                    if pid:
                        opened[pid] = pidfd_open(pid)
                except OSError as error:
                    if error.errno not in (errno.ESRCH, errno.EINVAL):
                        raise
            still = set(self.processes())
            for pid, pidfd in opened.items():
                if pid in still:
                    try:
                        pidfd_send_signal(pidfd, signal.SIGKILL)
                    except OSError as error:
                        if error.errno != errno.ESRCH:
                            raise
        finally:
            for pidfd in opened.values():
                os.close(pidfd)

    def reset(self, *, quiet: bool = False) -> None:
        """
        Be ready for the next run: check that no process is left, and count from zero.

        ``quiet`` says that the last run had one process, which answered well: then less is looked at.
        A process that has ended counts until its parent has reaped it, and is waited for shortly.  Raises ``OSError``
        (``EBUSY``) where one is left.
        """
        folders = self._folders if self._everywhere else self._essential()
        # Of this one the kernel says how many it holds, the dead too.
        left = {pid for folder in folders if folder != self._pids for pid in members(folder)}
        end = time.monotonic() + _REAP_S
        pause = 0.0005
        count: int | None = 0
        while self._pids and (count := self.files.counter(self._pids, "pids.current")) != 0:
            left.update(members(self._pids))
            if left or count is None:
                break
            if time.monotonic() > end:
                raise OSError(errno.EBUSY, f"{count} processes that ended were not reaped", self._pids)
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        if left or count is None:
            raise OSError(errno.EBUSY, f"processes are left in the control group: {sorted(left)[:8]}", self._folders[0])
        self._mark_again(quiet=quiet)
        self._used = self._everywhere = False

    def remove(self) -> None:
        """Remove the slot, which must hold no process; one that is gone already is fine.  Raises ``OSError``."""
        self.files.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        for folder in self._folders:
            remove_group(folder)


class Slots:
    """
    The place below our own group where slots are made, for one owner.  Any thread may use it.

    ``flavour`` is ``cgroup1`` or ``cgroup2``; ``how`` says in words where the slots are and what was proven;
    ``controls_cpu`` whether ``configure`` takes ``cpus``; ``supports_clone_into`` whether ``Slot.fd`` can be given to
    ``clone3``.
    """

    flavour = ""

    def __init__(self, owner: str, roots: list[str], how: str) -> None:
        self.owner = owner
        self.how = how
        self.controls_cpu = False
        self.supports_clone_into = False
        #: The groups that hold our slots, one for each hierarchy.
        self.roots = roots
        #: What holds those of them that are made.
        self._holds: dict[str, int] = {}

    def _make_root(self, root: str) -> None:
        """Make one of the groups that hold our slots, if it is not there, and hold it; raises ``OSError``."""
        held = self._holds.get(root, -1)
        if held >= 0:
            if cgroup_held.is_at(held, root):
                return
            os.close(self._holds.pop(root))
        self._holds[root] = cgroup_held.make(root)

    def new(self, name: str) -> Slot:
        """Make a slot.  ``name`` is unique for the owner.  Raises ``ValueError`` for a name and ``OSError``."""
        check_name(name, "the name of a slot")
        folders = [f"{root}/{name}" for root in self.roots]
        made: list[str] = []
        try:
            for folder in folders:
                os.mkdir(folder, 0o755)
                made.append(folder)
            return self._slot(name, folders)
        except BaseException:
            for folder in made:
                remove_group(folder)
            raise

    def _slot(self, name: str, folders: list[str]) -> Slot:
        raise NotImplementedError

    def close(self) -> None:
        """Remove every slot of this owner that holds no process, and then the place itself; never raises."""
        for root in self.roots:
            for name in groups_below(root):
                _remove_quietly(f"{root}/{name}")
            _remove_quietly(root)
            # One that is still in use goes on being ours.
            if root in self._holds and not cgroup_held.is_at(self._holds[root], root):
                os.close(self._holds.pop(root))

    def let_go(self) -> None:
        """Hold the groups no longer, as in a forked child: they are then a sweep's once nobody else does."""
        while self._holds:
            os.close(self._holds.popitem()[1])


def _remove_quietly(folder: str) -> None:
    try:
        in_use = bool(groups_below(folder) or members(folder))
    except OSError:
        in_use = False
    try:
        # Processes that were killed just now may make it busy for a moment.
        remove_group(folder, 0.0 if in_use else 0.2)
    except OSError:
        return


def end_leftovers(root: str) -> None:
    """End what is left in the slots below ``root``, the group of a dead owner, and remove them; raises ``OSError``."""
    for name in groups_below(root):
        slot = Slot(name, [f"{root}/{name}"])
        if slot.processes():
            slot.kill()
        slot.remove()
