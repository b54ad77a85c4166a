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
#: Rounds in which processes are stopped before any of them is ended.
_ROUNDS = 64
#: Seconds after which this gives up on a process that not even SIGKILL ends.
_PATIENCE_S = 60.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    """Serve one worker.  Never returns."""
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        order, fds = datagrams.receive(control)
        if order is None or len(fds) != STREAMS:
            os._exit(0)
        caller = os.pidfd_open(order["caller"])
        if os.getppid() != order["caller"]:
            # It has ended, and its number may be another's by now.
            os._exit(0)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
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
    poller = select.poll()
    # The caller says that it is done by closing.  Its end is watched too: a child of it may hold a copy of the socket.
    for fd in (control.fileno(), caller, watch):
        poller.register(fd, select.POLLIN)
    poller.poll()
    grace = _grace(control)
    if grace > 0:
        ask_all(grace, (control.fileno(), caller))
    told = end_all(worker)
    try:
        datagrams.send(control, told)
    except OSError:
        pass
    os._exit(0)


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
    poller = select.poll()
    for fd in hurry:
        poller.register(fd, select.POLLIN)
    asked: dict[int, int] = {}
    try:
        while (left := until - time.monotonic()) > 0:
            for pid in procs.descendants(os.getpid()):
                if pid not in asked.values() and (pidfd := _open(pid)) >= 0:
                    asked[pidfd] = pid
                    poller.register(pidfd, select.POLLIN)
                    _send(pidfd, signal.SIGTERM)
                    # One that is stopped hears nothing else.
                    _send(pidfd, signal.SIGCONT)
            if not asked:
                return
            for fd, _ in poller.poll(left * 1000):
                if fd in hurry:
                    return
                poller.unregister(fd)
                os.close(fd)
                del asked[fd]
    finally:
        for pidfd in asked:
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
        _end_living()


def _end_living() -> None:
    """End those that are seen now.  They are stopped first, so that none has a child that the next look would miss."""
    seen: dict[int, int] = {}
    try:
        for _ in range(_ROUNDS):
            new = [pid for pid in procs.descendants(os.getpid()) if pid not in seen]
            if not new:
                break
            for pid in new:
                _hold(pid, seen)
        for pidfd in seen.values():
            _send(pidfd, signal.SIGKILL)
        for pidfd in seen.values():
            procs.wait_for_end(pidfd, 0.05)
        if not seen:
            # Dead but for the reaping, which the next round does.
            time.sleep(0.001)
    finally:
        for pidfd in seen.values():
            os.close(pidfd)


def _hold(pid: int, seen: dict[int, int]) -> None:
    pidfd = _open(pid)
    if pidfd >= 0:
        seen[pid] = pidfd
        _send(pidfd, signal.SIGSTOP)


def _open(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _send(pidfd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        pass
