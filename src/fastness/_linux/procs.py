"""
Processes as a parent sees them: their end as a readable descriptor, their descendants, and the end of all of them.

A process number may be given to another process once its owner was reaped, so nothing here signals by number: a
pidfd is opened, then the process that has the number is looked at, and then it is signalled (``pidfd_open(2)``).
Trees may have more processes than this one may have descriptors, so none is kept open for longer than that takes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import struct
import time

from fastness._linux.syscalls import pidfd_open, pidfd_send_signal

__all__ = [
    "descendants", "kill_descendants", "kill_tree", "open_one", "orphans", "parent_of", "pidfd_open",
    "pidfd_send_signal", "signal_all", "start_time", "tree", "wait_for_all", "wait_for_end",
]  # fmt: skip

#: Bytes of one file under ``/proc`` that are looked at.
_READ_CAP = 1 << 16

_PIDFD_INFO = struct.Struct("=QQ11Ii")
_PIDFD_GET_INFO = 0xC0000000 | _PIDFD_INFO.size << 16 | 0xFF << 8 | 11
_PIDFD_INFO_PID = 1

#: Rounds of :func:`kill_descendants`; each finds the children that were born during the one before.
_ROUNDS = 64


def process_number(pidfd: int) -> int:
    """As :func:`process_and_parent`, the first alone."""
    return process_and_parent(pidfd)[0]


def process_and_parent(pidfd: int) -> tuple[int, int]:
    """
    The numbers of the process behind ``pidfd`` and of its parent as this process sees them.

    ``PIDFD_GET_INFO``, Linux 6.13.  The parent's is 0 where this process has no number for it.  Raises ``OSError``:
    ``ESRCH`` where it has ended and was reaped, others where the kernel does not know the call.
    """
    # struct pidfd_info: a mask of what is asked for, the group's number, then the numbers of the process, of its group
    # of threads and of its parent.
    info = bytearray(_PIDFD_INFO.size)
    _PIDFD_INFO.pack_into(info, 0, _PIDFD_INFO_PID, *(0,) * 13)
    # SAFETY: the size is part of the request's number, and the buffer has it.
    fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info, True)
    mask, _, pid, _, parent, *_ = _PIDFD_INFO.unpack(info)
    if not mask & _PIDFD_INFO_PID or not pid:
        raise OSError(errno.ESRCH, "the process has ended or has no number here")
    return int(pid), int(parent)


def wait_for_end(pidfd: int, timeout: float) -> bool:
    """Wait up to ``timeout`` seconds for the process behind ``pidfd``; True once it has ended.  Does not reap it."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(max(timeout, 0) * 1000))


def _stat(pid: int) -> list[bytes] | None:
    """
    Fields of ``/proc/<pid>/stat`` from the third, the state, on; None where there is no such process.

    Raises ``OSError`` where this process may open nothing more, for that says nothing about the other.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read(_READ_CAP)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return None
    # The second field is the program's name, in parentheses; it may hold spaces and parentheses itself.
    return text.rpartition(b")")[2].split()


def parent_of(pid: int) -> int:
    """The number of a process's parent; 0 where there is no such process, or it is not known here."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def start_time(pid: int) -> int | None:
    """When ``pid`` was started, in clock ticks since boot; with the number it names a process for good."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def tree(pid: int) -> dict[int, int]:
    """
    Children of ``pid``, their children and so on, at this moment, nearest first, with the start time of each.

    Zombies are left out.  One whose parent has ended belongs to another parent by then and is not found: see
    :func:`orphans`.  Raises ``OSError``.
    """
    children: dict[int, list[int]] = {}
    starts: dict[int, int] = {}
    for other in _all_pids():
        fields = _stat(other)
        if fields:
            children.setdefault(int(fields[1]), []).append(other)
            if fields[0] not in (b"Z", b"X"):
                starts[other] = int(fields[19])
    found = []
    level = [pid]
    while level:
        level = [child for parent in level for child in children.get(parent, ())]
        found += level
    return {child: starts[child] for child in found if child in starts}


def descendants(pid: int) -> list[int]:
    """The numbers of :func:`tree`."""
    return list(tree(pid))


def orphans(marker: str, *, but: tuple[int, ...] = ()) -> list[int]:
    """
    Processes, other than this one and ``but``, whose arguments or environment contain ``marker``; no zombies.

    What may not be read (another user's environment) is not looked at.  For test suites: give what they start a
    marker of its own and ask for it at the end.
    """
    wanted = marker.encode()
    skip = {os.getpid(), *but}
    found = []
    for pid in _all_pids():
        if pid in skip:
            continue
        for name in ("cmdline", "environ"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    text = file.read(_READ_CAP)
            except OSError:
                continue
            if wanted in text:
                fields = _stat(pid)
                if fields and fields[0] not in (b"Z", b"X"):
                    found.append(pid)
                break
    return found


def signal_all(processes: dict[int, int], *numbers: int) -> None:
    """Send signals to each of ``processes``, which are numbers and start times; one that has ended is passed over."""
    for pid, start in processes.items():
        pidfd = open_one(pid, start)
        if pidfd >= 0:
            try:
                for number in numbers:
                    _send(pidfd, number)
            finally:
                os.close(pidfd)


def kill_descendants(pid: int) -> dict[int, int]:
    """
    Send ``SIGKILL`` to every descendant of ``pid``; returns their numbers and start times.

    All are stopped before any is killed, so that none can have children which the next look would not find.
    """
    seen: dict[int, int] = {}
    for _ in range(_ROUNDS):
        new = {child: start for child, start in tree(pid).items() if seen.get(child) != start}
        if not new:
            break
        signal_all(new, signal.SIGSTOP)
        seen |= new
    signal_all(seen, signal.SIGKILL)
    return seen


def wait_for_all(processes: dict[int, int], timeout: float) -> bool:
    """Wait up to ``timeout`` seconds for all of ``processes`` to end; True once they have.  Reaps none."""
    deadline = time.monotonic() + timeout
    for pid, start in processes.items():
        pidfd = open_one(pid, start)
        if pidfd >= 0:
            try:
                if not wait_for_end(pidfd, deadline - time.monotonic()):
                    return False
            finally:
                os.close(pidfd)
    return True


def kill_tree(pid: int, timeout: float = 5.0) -> bool:
    """
    End ``pid`` and all its descendants with ``SIGKILL``; True once all of them have ended.

    The root is stopped first, see :func:`kill_descendants`.  Reaping a direct child stays with the caller.
    """
    start = start_time(pid)
    if start is None:
        return True
    root = {pid: start}
    signal_all(root, signal.SIGSTOP)
    seen = root | kill_descendants(pid)
    signal_all(root, signal.SIGKILL)
    return wait_for_all(seen, timeout)


def open_one(pid: int, start: int) -> int:
    """A pidfd of the process that has this number and started then; -1 where it has ended.  Raises ``OSError``."""
    try:
        pidfd = pidfd_open(pid)
    except OSError as error:
        # EINVAL: a thread of another process has the number now.
        if error.errno in (errno.ESRCH, errno.EINVAL):
            return -1
        raise
    try:
        # Looked at after it was opened: it is this one's for as long as it is open.
        same = start_time(pid) == start
    except OSError:
        os.close(pidfd)
        raise
    if not same:
        os.close(pidfd)
        return -1
    return pidfd


def _send(pidfd: int, number: int) -> None:
    try:
        pidfd_send_signal(pidfd, number)
    except OSError as error:
        # EPERM: it became another user's, such as a set-user-id program; its end is waited for all the same.
        if error.errno not in (errno.ESRCH, errno.EPERM):
            raise
