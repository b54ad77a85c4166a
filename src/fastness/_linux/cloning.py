"""
Forking this interpreter into new namespaces and a control group (``clone3(2)``, ``setns(2)``).

``os.fork`` takes no flags, and entering namespaces after it would need the calls that a process which forks guests
has given up.  The interpreter's own steps around a fork are made here too, so that locks, the random module and
whatever registered itself with ``os.register_at_fork`` are right in the child.
"""

from __future__ import annotations

import ctypes as C
import errno
import fcntl
import os

from fastness._linux import machine_code
from fastness._linux.plan import ANY, Plan, words
from fastness._linux.syscalls import CLONE_INTO_CGROUP, CLONE_NEWNS, CLONE_THREAD, MACHINE, NUMBERS, oserror, prctl, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CLONE_CHILD_CLEARTID = 0x00200000
_CLONE_CHILD_SETTID = 0x01000000
_CLONE_PIDFD = 0x00001000
_PR_GET_TID_ADDRESS = 40
_SIGCHLD = 17

# SAFETY: calls through a PyDLL keep the interpreter's lock, so no other thread of it can run between the interpreter's
# own preparations and the fork, and the child is born holding the lock.
_kept = C.PyDLL(None, use_errno=True)
_before = C.pythonapi.PyOS_BeforeFork
_after_in_child = C.pythonapi.PyOS_AfterFork_Child
_after_in_parent = C.pythonapi.PyOS_AfterFork_Parent
_call = _kept.syscall
_call.restype = C.c_long
_call.argtypes = [C.c_long] * 6

#: What is below it is no error's number.
LEAST_ERROR = -4095
#: No calls.
_NO_LISTS = words(1)
#: ``unshare(CLONE_THREAD)``, all of it ready: a zygote makes this call before each guest.
_ALONE = NUMBERS["unshare"], CLONE_THREAD, 0, 0, 0, 0
#: The folder of this process's threads, where the kernel does not answer otherwise; the lowest number that it may have.
_threads = [-1]
_THREADS_FROM = 128


def thread_address() -> int:
    """
    Where the C library keeps the number of this thread; 0 where the kernel does not tell.

    A child must find its own number there (``PR_GET_TID_ADDRESS``, a kernel with checkpoint support).
    """
    word = C.c_uint64(0)
    try:
        # SAFETY: the kernel writes one word to `word`, which outlives the call.
        raw("prctl", _PR_GET_TID_ADDRESS, C.addressof(word), 0, 0, 0)
    except OSError:
        return 0
    return word.value


def single_threaded() -> bool:
    """
    Whether this process has one thread, asked of the kernel without ``/proc``.

    ``unshare(CLONE_THREAD)`` does nothing in a process of one thread and is refused in any other.  Filters of
    containers refuse all of it; there ``/proc`` is opened at the first call, and the folder is kept.
    """
    # SAFETY: takes one integer and changes nothing.
    if _call(*_ALONE) == 0:
        return True
    failed = C.get_errno()
    if failed == errno.EINVAL:
        return False
    if failed not in (errno.EPERM, errno.ENOSYS):
        raise oserror("unshare", failed)
    return _counted() == 1


def _counted() -> int:
    if _threads[0] < 0:
        folder = os.open("/proc/self/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _threads[0] = fcntl.fcntl(folder, fcntl.F_DUPFD_CLOEXEC, _THREADS_FROM)
        os.close(folder)
    return len(os.listdir(_threads[0]))


def has_children() -> bool:
    """Whether this process has children that run; those that have ended are taken."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


class Fork:
    """
    A fork into the namespaces in ``flags``, which can be made any number of times.

    In steps, for one who forks from a frame that has little in it: :meth:`begin`, then ``make`` with the address that
    returns, that of calls for the child and that of calls for the parent (:mod:`fastness._linux.machine_code`).  In the
    parent this returns a number for :meth:`over`.  In the child it returns one below :data:`LEAST_ERROR`, the
    complement of how far the child has come with its calls, and ``after`` has to be called next.

    ``process`` is where the kernel puts a close-on-exec descriptor of the child, which the parent owns.
    """

    __slots__ = ("_arguments", "_elder", "_prepared", "_row", "_rows", "after", "make", "process")

    def __init__(self, flags: int, process: C.c_int | None = None) -> None:
        self.process = C.c_int(-1) if process is None else process
        # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        # set_tid_size, cgroup.
        self._arguments = (C.c_uint64 * 11)()
        self._arguments[0] = flags | _CLONE_PIDFD
        self._arguments[1] = C.addressof(self.process)
        self._arguments[4] = _SIGCHLD
        address = thread_address()
        if address:
            # As the C library's own fork does: its idea of the thread's number must be the child's.
            self._arguments[0] |= _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
            self._arguments[2] = address
        self._rows = Plan()
        # 88 bytes of `struct clone_args` that outlive the call, and in it the addresses of two words that do.
        self._rows.add("clone3", self._arguments, 88, result=ANY)
        # No stack is given, so the child goes on on its copy of this one.
        last = (0, address) if MACHINE == "aarch64" else (address, 0)
        self._elder = self._rows.add("clone", self._arguments[0] | _SIGCHLD, 0, self._arguments[1], *last, result=ANY)
        self._row = 0
        self._prepared = False
        fork = machine_code.fork
        # SAFETY: the interpreter's documented step after a fork, in the child.
        self.after: Callable[[], object] = _after_in_child if fork is not None else nothing
        self.make: Callable[[int, int, int], int] = fork or self._make

    def enter(self, *, group: bool) -> int:
        """
        Whether children are born in a group of cgroup v2; returns the address where its descriptor has to be by then.

        Raises ``OSError`` where they cannot be.
        """
        if group and self._row == self._elder:
            raise oserror("clone3", errno.ENOSYS)
        if group:
            self._arguments[0] |= CLONE_INTO_CGROUP
        else:
            self._arguments[0] &= ~CLONE_INTO_CGROUP
            self._arguments[10] = 0
        return C.addressof(self._arguments) + 8 * 10

    def begin(self) -> int:
        """
        Prepare the interpreter for a fork.

        The caller must have one thread, and do nothing before it forks but what needs no lock of the interpreter's.
        """
        if not self._prepared:
            self._prepared = True
            # SAFETY: the interpreter's documented steps around fork(2): prepare, then the parent's or the child's half.
            _before()
        return self._rows.address(self._row)

    def over(self, pid: int, *, again: bool = False) -> int:
        """
        In the parent: the child's process number, as this process sees it; 0 where it is to be begun once more.

        With ``again`` it stays prepared for the next one, which is for interpreters where nobody has asked to be told
        of forks (``os.register_at_fork``).  Raises ``OSError``.
        """
        if not again:
            self._prepared = False
            # SAFETY: as above, in the parent.
            _after_in_parent()
        if pid > 0:
            return pid
        if pid == -errno.ENOSYS and self._row != self._elder and not self._arguments[0] & CLONE_INTO_CGROUP:
            # Filters of containers refuse it, for they cannot read its flags, and let older programs use its elder.
            self._row = self._elder
            return 0
        raise oserror("clone3", -pid)

    def _make(self, row: int, lists: int, parents: int) -> int:
        # SAFETY: the addresses are of a row and of lists that the caller keeps.  Without CLONE_VM the child has a copy
        # of this memory and goes on from here on its copy of this stack.
        pid: int = _call(*(C.c_int64 * 6).from_address(row))
        if pid == 0:
            # SAFETY: as above, in the child.
            _after_in_child()
            return ~machine_code.in_python(lists)
        if pid < 0:
            return -C.get_errno()
        # SAFETY: as above.
        machine_code.in_python(parents)
        return pid


def fork_into(flags: int = 0, cgroup_fd: int = -1) -> int:
    """Fork once, and without a descriptor; returns 0 in the child.  Raises ``OSError``."""
    if not flags and cgroup_fd < 0:
        return os.fork()
    fork = Fork(flags)
    place = fork.enter(group=cgroup_fd >= 0)
    if cgroup_fd >= 0:
        # SAFETY: a word of the arguments that `fork` keeps.
        C.c_uint64.from_address(place).value = cgroup_fd
    while True:
        pid = fork.make(fork.begin(), C.addressof(_NO_LISTS), C.addressof(_NO_LISTS))
        if pid < LEAST_ERROR:
            fork.after()
            return 0
        if pid := fork.over(pid):
            os.close(fork.process.value)
            return pid


def nothing() -> None:
    """What takes the place of something that need not be done."""


def enter_mount_namespace(fd: int) -> None:
    """
    Join the mount namespace behind ``fd`` (of a namespace or of a process); root and current folder become its root.

    Raises ``OSError`` (``setns(2)``; a process descriptor needs Linux 5.8).
    """
    # SAFETY: integers only.
    raw("setns", fd, CLONE_NEWNS)


def close_from(first: int) -> None:
    """Close every descriptor from ``first`` on (``close_range(2)``, Linux 5.9)."""
    close_range(first, 0xFFFFFFFF)


def close_range(first: int, last: int) -> None:
    """Close every descriptor from ``first`` to ``last``, whether or not it is open (``close_range(2)``)."""
    # SAFETY: integers only; the largest unsigned 32-bit number stands for "all".
    raw("close_range", first, last, 0)


def keep_dumpable(value: bool) -> None:
    """Whether processes of the same user may look at this one (``PR_SET_DUMPABLE``)."""
    prctl(4, int(value))
