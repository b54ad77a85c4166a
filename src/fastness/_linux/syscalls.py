"""
System calls that the standard library does not offer, as Python calls that raise ``OSError``.

Everything here goes through the C library's ``syscall(2)`` with seven word-sized arguments, so a Python integer
is never narrowed to an ``int`` on its way to the kernel.  Pointers are passed as addresses; the caller keeps the
memory alive for the length of the call.
"""

from __future__ import annotations

import ctypes as C
import os
import sys

from fastness._linux.numbers import numbers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The machine as ``uname(2)`` names it.  ``x86_64`` is what this package is tested on.
MACHINE: str = os.uname().machine if hasattr(os, "uname") else ""

ON_LINUX = sys.platform.startswith("linux")

#: Numbers of this machine's system calls by name; empty where the machine is not known.
NUMBERS: dict[str, int] = numbers_of(MACHINE) if ON_LINUX else {}

_libc: Any = None
if ON_LINUX:
    # SAFETY: the C library that this interpreter already runs on; nothing new is loaded.
    _libc = C.CDLL(None, use_errno=True)
    _libc.syscall.restype = C.c_long
    _libc.syscall.argtypes = [C.c_long] * 7


def raw(name: str, *arguments: int) -> int:
    """
    Make the system call ``name`` with up to six word-sized ``arguments`` and return its result.

    Raises ``OSError`` with the kernel's error number and the name of the call; ``ENOSYS`` too where this platform
    or machine has no number for it.
    """
    number = NUMBERS.get(name)
    if number is None:
        where = MACHINE if ON_LINUX else sys.platform
        raise OSError(38, f"the system call {name} is not known on {where}")
    return raw_number(name, number, *arguments)


def raw_number(name: str, number: int, *arguments: int) -> int:
    """As :func:`raw` for a number that has no name in the tables; ``name`` is for the error's text."""
    if _libc is None:
        raise oserror(name, 38)
    # SAFETY: all seven parameters are declared as words and all are given; unused ones are 0.  What a pointer
    # argument refers to is the caller's to keep.
    result: int = _libc.syscall(number, *arguments, *(0,) * (6 - len(arguments)))
    if result == -1:
        raise oserror(name, C.get_errno())
    return result


def word_call() -> Any:
    """
    ``syscall(2)`` itself, with seven words: a call's number and six arguments.  -1 says that it failed.

    For whoever has checked the number; nothing here looks at the result.  Raises ``OSError`` where this is not Linux.
    """
    if _libc is None:
        raise oserror("syscall", 38)
    # SAFETY: nothing is called here; whoever does says why each word is what the kernel expects.
    return _libc.syscall


def oserror(name: str, number: int) -> OSError:
    """An ``OSError`` for ``number`` whose text names the system call."""
    return OSError(number, f"{name}: {os.strerror(number)}")


#: In the place of a descriptor: relative names are below the current folder.
AT_FDCWD = -100

# ------------------------------------------------------------------------------------------------ prctl(2)

PR_SET_PDEATHSIG = 1
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, second: int = 0, third: int = 0, fourth: int = 0, fifth: int = 0) -> int:
    """``prctl(2)``.  Raises ``OSError``."""
    # SAFETY: only options that take integers are used in this package; no option writes through a pointer.
    return raw("prctl", option, second, third, fourth, fifth)


# ------------------------------------------------------------------------------------------- namespaces(7)

CLONE_INTO_CGROUP = 0x200000000
CLONE_THREAD = 0x00010000
CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000


def unshare(flags: int) -> None:
    """``unshare(2)``: leave the namespaces in ``flags`` for new ones.  Raises ``OSError``."""
    # SAFETY: takes one integer.
    raw("unshare", flags)


# ----------------------------------------------------------------------------------------- capabilities(7)

_CAPABILITY_VERSION_3 = 0x20080522


def drop_all_capabilities() -> None:
    """Empty the permitted, effective and inheritable sets of this thread (``capset(2)``).  Raises ``OSError``."""
    set_capabilities(())


def set_capabilities(kept: tuple[int, ...]) -> None:
    """
    Make ``kept`` this thread's permitted and effective capabilities, and none inheritable (``capset(2)``).

    Raises ``OSError``.
    """
    header, data = capability_arguments(kept)
    # SAFETY: version 3 reads two 12-byte records; `data` is 24 bytes, and both arrays outlive the call.
    raw("capset", C.addressof(header), C.addressof(data))


def capability_arguments(kept: tuple[int, ...]) -> tuple[C.Array[C.c_uint32], C.Array[C.c_uint32]]:
    """What ``capset(2)`` takes to make ``kept`` permitted and effective for the calling thread."""
    header = (C.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (C.c_uint32 * 6)()
    for capability in kept:
        # Two records of effective, permitted, inheritable: for capabilities 0 to 31, and from 32 on.
        first = 3 * (capability // 32)
        data[first] |= 1 << capability % 32
        data[first + 1] |= 1 << capability % 32
    return header, data


# ------------------------------------------------------------------------------------------------ pidfd(2)


def pidfd_open(pid: int) -> int:
    """A close-on-exec descriptor for process ``pid``, readable once it has ended (``pidfd_open(2)``)."""
    # SAFETY: takes two integers.
    return raw("pidfd_open", pid, 0)


def pidfd_send_signal(pidfd: int, signal: int) -> None:
    """Signal the process behind ``pidfd``; never another that took over its number (``pidfd_send_signal(2)``)."""
    # SAFETY: a null siginfo pointer asks the kernel to fill it in.
    raw("pidfd_send_signal", pidfd, signal, 0, 0)
