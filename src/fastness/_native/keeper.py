"""
The keeper of one worker: starts it, adopts whatever comes of it, and sees to the end of all of that.

As a subreaper (``prctl(2)``, ``PR_SET_CHILD_SUBREAPER``) it becomes the parent of every process below it whose own
parent has ended, so none can get away by forking twice or by a session of its own.  It ends them all as soon as the
worker ends, the caller says so, or the caller is gone, by whatever means; where the caller gives them a grace, it asks
them first.  It runs no code of a guest.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import time

from fastness._linux import procs
from fastness._linux.syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl
from fastness._native import datagrams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The worker's standard input, output, error and conversation, in this order; its only descriptors.
STREAMS = 4
#: Seconds between two looks for processes that have not been asked to end yet.
_LOOK_S = 0.1
#: Seconds after which this gives up on a process that not even SIGKILL ends.
_PATIENCE_S = 60.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    """Serve one worker.  Never returns."""
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        caller = _caller(control)
        order, fds = _order(control, caller)
        if order is None or len(fds) != STREAMS:
            os._exit(0)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        # Where the caller ignores it, which is inherited, the kernel forgets how a worker has ended (sigaction(2)).
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        worker = _start(order, fds)
    except OSError as error:
        try:
            datagrams.send(control, {"failed": f"{error}"[:500]})
        except OSError:
            pass
        os._exit(1)
    for fd in fds:
        os.close(fd)
    # Only now: a program inherits what is ignored.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    watch = os.pidfd_open(worker)
    # The caller says that it is done by closing.  Its end is watched too: a child of it may hold a copy of the socket.
    _wait(control.fileno(), caller, watch)
    grace = _grace(control)
    if grace > 0:
        ask_all(grace, (control.fileno(), caller))
    told = end_all(worker)
    try:
        datagrams.send(control, told)
    except OSError:
        pass
    os._exit(0)


def _caller(control: socket.socket) -> int:
    """
    A descriptor of the process that made ``control``, which starts this one; this ends where that has ended.

    The kernel keeps who made a pair (``SO_PEERCRED``), so there is no moment at which another could be taken for it.
    """
    (pid,) = struct.unpack_from("i", control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if os.getppid() != pid:
        os._exit(0)
    caller = os.pidfd_open(pid)
    if os.getppid() != pid:
        # It has ended, and its number may be another's by now.
        os._exit(0)
    return caller


def _order(control: socket.socket, caller: int) -> tuple[dict[str, Any] | None, list[int]]:
    """What the caller wants, or None where it has ended: a child of it may hold a copy of its end."""
    if control.fileno() not in _wait(control.fileno(), caller):
        return None, []
    return datagrams.receive(control)


def _wait(*fds: int) -> list[int]:
    """Those of ``fds`` that have something to read, once one has."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll()]


def _grace(control: socket.socket) -> float:
    """Seconds that the caller gives; 0 where it has said nothing, or has closed."""
    control.setblocking(False)
    try:
        said, _ = datagrams.receive(control)
    except OSError:
        return 0.0
    finally:
        control.setblocking(True)
    return float(said["grace"]) if said else 0.0


def ask_all(seconds: float, hurry: tuple[int, ...]) -> None:
    """
    Send ``SIGTERM`` to every process below this one, once each, and wait until all have ended.

    It waits no longer than ``seconds``, and no longer than until a descriptor of ``hurry`` has something to read.
    """
    until = time.monotonic() + seconds
    asked: dict[int, int] = {}
    while (left := until - time.monotonic()) > 0:
        living = procs.tree(os.getpid())
        if not living:
            return
        # One that is stopped hears nothing but the second.
        procs.signal_all(
            {pid: start for pid, start in living.items() if asked.get(pid) != start}, signal.SIGTERM, signal.SIGCONT
        )
        asked |= living
        # All must end, so it does not matter which of them is waited for; others may have new children meanwhile.
        if _wait_for_one(*next(iter(living.items())), min(left, _LOOK_S), hurry):
            return


def _wait_for_one(pid: int, start: int, seconds: float, hurry: tuple[int, ...]) -> bool:
    """Wait for one process, or for one of ``hurry``; True for the latter."""
    pidfd = procs.open_one(pid, start)
    if pidfd < 0:
        return False
    try:
        poller = select.poll()
        for fd in (pidfd, *hurry):
            poller.register(fd, select.POLLIN)
        return any(fd in hurry for fd, _ in poller.poll(seconds * 1000))
    finally:
        os.close(pidfd)


def _start(order: dict[str, Any], fds: list[int]) -> int:
    """Fork and become the worker's interpreter there; returns its number here."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        # A session of its own: signals to a process group reach no one else.
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # Whatever the caller ignores or holds back, a worker hears when it is asked to end.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # A program with rights of its own would be out of the keeper's reach.
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        if os.getppid() != parent:
            os._exit(1)
        high = [_raise(fd) for fd in fds]
        for place, fd in enumerate(high):
            os.dup2(fd, place)
        os.closerange(STREAMS, 1 << 16)
        os.chdir(order["folder"])
        os.umask(0o077)
        os.execve(order["command"][0], order["command"], order["environment"])  # noqa: S606  # a program of ours, and no shell
    finally:
        os._exit(127)


def _raise(fd: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)


def end_all(worker: int) -> dict[str, Any]:
    """End every process below this one and reap it; returns how ``worker`` ended."""
    told: dict[str, Any] = {}
    until = time.monotonic() + _PATIENCE_S
    while True:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                # Neither a living child nor a dead one, and whatever lost its parent has become a child.
                return told
            if not pid:
                break
            if pid == worker:
                cpu = usage.ru_utime + usage.ru_stime
                told = {"status": status, "rss": usage.ru_maxrss, "cpu": cpu}
        if time.monotonic() > until:
            return told | {"left": procs.descendants(os.getpid())[:16]}
        # None has a chance to get away: what loses its parent becomes a child of this one, which the next round finds.
        seen = procs.kill_descendants(os.getpid())
        if seen:
            procs.wait_for_all(seen, 0.05)
        else:
            # Dead but for the reaping, which the next round does.
            time.sleep(0.001)
