"""
Small messages with descriptors, between processes of ours (``unix(7)``, ``SOCK_SEQPACKET``).

A guest never holds such a socket once its code runs.  A zygote holds one while it imports packages that nobody here has
read, so what comes from there may be of their making: a host takes nothing in it for granted.
"""

from __future__ import annotations

import array
import json
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Bytes of a guest's name, and what the zygote is asked for it with: that, and its user.
NAME = 12
ASKED = f"={NAME}sI"
#: What is told of its end: nothing, its name, its status (wait(2)), and what it has used (getrusage(2)).
ENDED = f"=I{NAME}si18q"
#: Bytes of one message.
SIZE = 1 << 17
#: Descriptors of one message.
DESCRIPTORS = 8
#: What is said of a message that was cut short.  Plain numbers: to work with the enum's flags takes as long as a call.
_CUT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
_RIGHTS = socket.CMSG_SPACE(4 * DESCRIPTORS)
_CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)


def send(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...] | list[int] = ()) -> None:
    """Send one message; the descriptors stay open here too.  Raises ``OSError``."""
    send_raw(sock, json.dumps(message).encode(), fds)


def send_raw(sock: socket.socket, data: bytes, fds: tuple[int, ...] | list[int] = ()) -> None:
    """As :func:`send` for a message that is JSON already."""
    if fds:
        sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    else:
        sock.send(data)


def receive(sock: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """
    The next message and its descriptors; None where the other end is gone.

    Raises ``OSError``, ``BlockingIOError`` where none has come yet and ``sock`` does not block.
    """
    data, fds = receive_raw(sock)
    return (json.loads(data) if data else None), fds


def receive_raw(sock: socket.socket, size: int = SIZE) -> tuple[bytes, list[int]]:
    """As :func:`receive` for up to ``size`` bytes, which are not looked into; ``b""`` where the other end is gone."""
    data, ancillary, flags, _ = sock.recvmsg(size, _RIGHTS, _CLOEXEC)
    fds = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % 4])
    if flags & _CUT:
        for fd in fds:
            os.close(fd)
        raise OSError(90, "a message was larger than any of ours")
    return data, list(fds)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
