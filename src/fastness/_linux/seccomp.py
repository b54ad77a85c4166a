"""
Installing a seccomp filter (``seccomp(2)``), with a listener for a supervisor or without (``seccomp_unotify(2)``).

Only this small module is imported by a process that confines itself: the programs come ready made from
:mod:`fastness._linux.profiles`.
"""

from __future__ import annotations

import ctypes as C
import errno

from fastness._linux.syscalls import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fastness._linux.plan import Plan

_SET_MODE_FILTER = 1
_GET_ACTION_AVAIL = 2
_GET_NOTIF_SIZES = 3
_FLAG_TSYNC = 1
_FLAG_NEW_LISTENER = 1 << 3
# Linux 5.19: once a supervisor has taken a notification, only a fatal signal ends the wait for its answer.
_FLAG_WAIT_KILLABLE_RECV = 1 << 5

_USER_NOTIFICATION = 0x7FC00000


def install(program: bytes, *, all_threads: bool = False) -> None:
    """
    Put this thread, or with ``all_threads`` the whole process, under ``program`` for good.

    Filters add up: the strictest answer of all that are installed counts.  Needs ``no_new_privs``.
    Raises ``OSError``; ``ESRCH`` where another thread runs under a filter of its own and could not be taken along.
    """
    stuck = _set_filter(program, _FLAG_TSYNC if all_threads else 0)
    if stuck:
        raise OSError(errno.ESRCH, f"seccomp: thread {stuck} has another filter and could not be taken along")


def install_with_listener(program: bytes) -> int:
    """
    Put this thread under ``program`` for good; returns its listener, a close-on-exec descriptor.

    Until somebody answers on the listener, a call that the program tells of does not return: hand the listener over
    and close it before anything is done that the program might tell of.  Once no copy of it is open, such calls fail
    with ``ENOSYS``.  Raises ``OSError``; ``EBUSY`` where this thread is under a filter whose listener is open.
    """
    try:
        return _set_filter(program, _FLAG_NEW_LISTENER | _FLAG_WAIT_KILLABLE_RECV)
    except OSError as error:
        # Either the program is wrong, which the second attempt finds too, or the kernel does not know the flag.
        if error.errno != errno.EINVAL:
            raise
    return _set_filter(program, _FLAG_NEW_LISTENER)


def plan(calls: Plan, program: bytes, listener: int = -1) -> C.Array[C.c_uint32]:
    """
    Add to ``calls`` what :func:`install` does, or :func:`install_with_listener` where ``listener`` is the lowest free
    number of a descriptor; returns the program's words, two to an instruction, which may be changed until then.
    """
    if len(program) % 8 or not program:
        raise OSError(errno.EINVAL, "seccomp: not a program")
    code = (C.c_uint32 * (len(program) // 4)).from_buffer_copy(program)
    # A `struct sock_fprog`, as below.
    header = (C.c_uint64 * 2)(len(program) // 8, C.addressof(code))
    calls.hold(code)
    flags = 0 if listener < 0 else _FLAG_NEW_LISTENER | _FLAG_WAIT_KILLABLE_RECV
    calls.add("seccomp", _SET_MODE_FILTER, flags, header, result=max(0, listener))
    return code


def _set_filter(program: bytes, flags: int) -> int:
    if len(program) % 8 or not program:
        raise OSError(errno.EINVAL, "seccomp: not a program")
    code = C.create_string_buffer(program, len(program))
    header = (C.c_uint64 * 2)(len(program) // 8, C.addressof(code))
    # SAFETY: `header` is a `struct sock_fprog`: a 16-bit length (little-endian, padded to a word; both supported
    # machines are little-endian) and the address of that many instructions.  The kernel copies them.
    return raw("seccomp", _SET_MODE_FILTER, flags, C.addressof(header))


def notification_sizes() -> tuple[int, int]:
    """Bytes of this kernel's notifications and of the answers to them.  Raises ``OSError`` where it has none."""
    sizes = (C.c_uint16 * 3)()
    # SAFETY: the kernel writes a `struct seccomp_notif_sizes`, three 16-bit words.
    raw("seccomp", _GET_NOTIF_SIZES, 0, C.addressof(sizes))
    return sizes[0], sizes[1]


def has_user_notification() -> bool:
    """Whether a supervisor can answer calls (``SECCOMP_RET_USER_NOTIF``, Linux 5.0)."""
    try:
        notification_sizes()
    except OSError:
        return False
    action = C.c_uint32(_USER_NOTIFICATION)
    try:
        # SAFETY: the kernel reads one 32-bit word that outlives the call.
        raw("seccomp", _GET_ACTION_AVAIL, 0, C.addressof(action))
    except OSError:
        return False
    return True
