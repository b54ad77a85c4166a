"""
Installing a seccomp filter (``seccomp(2)``).

Only this small module is imported by a process that confines itself: the programs come ready made from
:mod:`fastness._linux.profiles`.
"""

from __future__ import annotations

import ctypes as C
import errno

from fastness._linux.syscalls import raw

_SET_MODE_FILTER = 1
_GET_ACTION_AVAIL = 2
_FLAG_TSYNC = 1

_KILL_PROCESS = 0x80000000


def install(program: bytes, *, all_threads: bool = False) -> None:
    """
    Put this thread, or with ``all_threads`` the whole process, under ``program`` for good.

    Filters add up: the strictest answer of all that are installed counts.  Needs ``no_new_privs``.
    Raises ``OSError``; ``ESRCH`` where another thread runs under a filter of its own and could not be taken along.
    """
    if len(program) % 8 or not program:
        raise OSError(errno.EINVAL, "seccomp: not a program")
    code = C.create_string_buffer(program, len(program))
    header = (C.c_uint64 * 2)(len(program) // 8, C.addressof(code))
    # SAFETY: `header` is a `struct sock_fprog`: a 16-bit length (little-endian, padded to a word; both supported
    # machines are little-endian) and the address of that many instructions.  The kernel copies them.
    stuck = raw("seccomp", _SET_MODE_FILTER, _FLAG_TSYNC if all_threads else 0, C.addressof(header))
    if stuck:
        raise OSError(errno.ESRCH, f"seccomp: thread {stuck} has another filter and could not be taken along")


def can_kill_process() -> bool:
    """Whether the kernel knows ``SECCOMP_RET_KILL_PROCESS`` (Linux 4.14)."""
    action = C.c_uint32(_KILL_PROCESS)
    try:
        # SAFETY: the kernel reads one 32-bit word that outlives the call.
        raw("seccomp", _GET_ACTION_AVAIL, 0, C.addressof(action))
    except OSError:
        return False
    return True
