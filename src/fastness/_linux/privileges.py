"""
Giving up what a process could still use against its host: capabilities, core dumps, descriptors, writable code.
"""

from __future__ import annotations

import ctypes as C
import errno
import os

from fastness._linux.memory import PROT_EXEC, PROT_READ, protect
from fastness._linux.syscalls import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    drop_all_capabilities,
    prctl,
    raw,
    set_capabilities,
)

RLIMIT_CPU = 0
RLIMIT_FSIZE = 1
RLIMIT_CORE = 4
RLIMIT_NOFILE = 7
RLIMIT_MEMLOCK = 8
RLIMIT_AS = 9
RLIMIT_MSGQUEUE = 12

_SIGKILL = 9
_MAX_CAPABILITIES = 64


def set_limit(resource: int, value: int) -> None:
    """
    Lower the soft and the hard limit of ``resource`` to ``value``, never above the present hard limit.

    Raises ``OSError`` (``prlimit(2)``).
    """
    old = (C.c_uint64 * 2)()
    new = (C.c_uint64 * 2)(value, value)
    try:
        # SAFETY: the kernel reads one `struct rlimit64`, 16 bytes, of `new` and writes one to `old`; both outlive the
        # call.
        raw("prlimit64", 0, resource, C.addressof(new), C.addressof(old))
        if value <= old[1]:
            return
    except OSError as error:
        # It is above the present hard limit, which without CAP_SYS_RESOURCE nobody may raise.
        if error.errno != errno.EPERM:
            raise
        # SAFETY: with a null new limit the kernel only writes 16 bytes to `old`.
        raw("prlimit64", 0, resource, 0, C.addressof(old))
    new[0] = new[1] = old[1]
    # SAFETY: the kernel reads 16 bytes of `new`, which outlives the call.
    raw("prlimit64", 0, resource, C.addressof(new), 0)


def die_with_parent(parent: int) -> None:
    """
    Be killed when process ``parent`` ends (``PR_SET_PDEATHSIG``).  Raises ``OSError`` ``ESRCH`` if it already has.

    The kernel watches the *thread* that started this process: a parent that starts us from a thread which
    ends before the parent does must not ask for this.
    """
    prctl(PR_SET_PDEATHSIG, _SIGKILL)
    # A parent that ended before the call above sends no signal any more, but it is no longer our parent either.
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "the parent process has ended already")


def forbid_new_privileges() -> None:
    """No later ``execve`` can add privileges, and filters may be installed (``PR_SET_NO_NEW_PRIVS``)."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def hide_memory() -> None:
    """No core file, and no other process of the same user may read our memory (``PR_SET_DUMPABLE`` 0)."""
    prctl(PR_SET_DUMPABLE, 0)


def drop_capabilities() -> str:
    """
    Empty the ambient, permitted, effective, inheritable and bounding sets; returns what of it could not be done.

    The bounding set needs ``CAP_SETPCAP``; without it the set keeps its bits, which is harmless under
    ``no_new_privs``, and the text says so.  Raises ``OSError`` where a capability would stay usable.
    """
    gap = ""
    for capability in range(_MAX_CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EPERM:
                gap = "the bounding set stays: no CAP_SETPCAP"
            elif error.errno != errno.EINVAL:  # EINVAL: the kernel has no capability of this number
                raise
            break
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    drop_all_capabilities()
    return gap


def keep_capabilities(kept: tuple[int, ...]) -> None:
    """
    Give up every capability but those in ``kept``, which must be held, and leave none to programs started later.

    The bounding set is emptied first, while that is still possible.  Raises ``OSError`` (``capabilities(7)``).
    """
    for capability in range(_MAX_CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the kernel has no capability of this number
                raise
            break
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    set_capabilities(kept)


def close_writable_code() -> int:
    """
    Take the write permission off every mapping that can be executed; returns how many there were.

    libffi keeps its callbacks either on an anonymous page that is writable and executable, or on a shared one that
    is mapped twice, once for each.  Callbacks that exist go on working; new ones cannot be made afterwards.
    Raises ``OSError`` where such a mapping cannot be closed.
    """
    fd = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, 1 << 16):
            pieces.append(piece)
    finally:
        os.close(fd)
    rows = [line.split(None, 5) for line in b"".join(pieces).splitlines()]
    # Files by (device, inode) of which a shared page can be executed: a writable view of them writes code.
    executable = {(row[3], row[4]) for row in rows if row[1][2:4] == b"xs"}
    closed = 0
    for row in rows:
        access = row[1]
        if access[1:2] != b"w":
            continue
        both = access[2:3] == b"x"
        if both or (access[3:4] == b"s" and (row[3], row[4]) in executable):
            first, _, last = row[0].partition(b"-")
            start = int(first, 16)
            protect(start, int(last, 16) - start, PROT_READ | PROT_EXEC if both else PROT_READ)
            closed += 1
    return closed


def thread_count() -> int:
    """How many threads this process has.  Raises ``OSError`` where ``/proc`` is not mounted."""
    return len(os.listdir("/proc/self/task"))
