"""
What a zygote keeps open while it makes guests, at numbers that all of its guests know.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat

from fastness._linux import cloning, landlock, privileges
from fastness._native import box, datagrams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The lowest number of the zygote's own descriptors; below are the folders that guests may read.
_OWN = 128
_RLIMIT_SIGPENDING = 11
#: Signals that may wait for a guest; the kernel counts them for the user, who may be the caller.
_SIGNALS = 256
_DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]


class Belongings:
    """
    ``rights`` of guests to the folders that are open from :data:`box.FOLDERS` on; ``mirror``, a conversation of the
    zygote with itself; and whether it can ``record`` refusals.
    """

    def __init__(self, *, record: bool) -> None:
        self.rights: list[int] = []
        self.mirror: list[socket.socket] = []
        self.record = record


def high(sock: socket.socket) -> socket.socket:
    """The same socket at a number of the zygote's own; the other is closed.  Raises ``OSError``."""
    fd = fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, _OWN)
    sock.close()
    return socket.socket(fileno=fd)


def settle(recording: socket.socket, mothers: socket.socket | None, config: dict[str, Any]) -> Belongings:
    """
    Put what guests need at their birth at numbers that all know, so that a guest closes the rest in one call.

    Folders are opened for good: guests make rules of their own for them, and to open one again takes longer.
    The sockets are given up for others.  Raises ``OSError``.
    """
    # Without the room refusals are answered by the filter alone, and results say so.
    kept = Belongings(record=_room() and config["record"])
    null = os.open("/dev/null", os.O_RDWR)
    # Those of the launcher are of the machine's own tree, where times and modes of a device can be changed.
    for fd in (0, 1):
        os.dup2(null, fd)
    moved = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _OWN) for one in (null, recording, mothers or null)]
    os.close(null)
    recording.close()
    if mothers is not None:
        mothers.close()
    for source, target in zip(moved, (box.TALK, box.RECORDING, box.MOTHERS), strict=True):
        if target != box.RECORDING or kept.record:
            os.dup2(source, target, inheritable=False)
    cloning.close_range(box.FOLDERS, _OWN - 1)
    privileges.set_limit(_RLIMIT_SIGPENDING, _SIGNALS)
    devices = ["/dev"] if config["tier"] == "isolated" else _DEVICES
    for path in [*config["readable"], *devices]:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rights = landlock.DEVICE if path in devices else landlock.READ
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= ~landlock.READ_DIR
        # The lowest free number is the next one: all from FOLDERS on were closed.
        if fd != box.FOLDERS + len(kept.rights) or fd >= _OWN:
            raise OSError(errno.EMFILE, f"more than {_OWN - box.FOLDERS} folders that guests may read")
        kept.rights.append(rights)
    for fd in moved:
        os.close(fd)
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _OWN) for end in datagrams.pair()]
    kept.mirror = [socket.socket(fileno=fd) for fd in ends]
    return kept


def _room() -> bool:
    """Let this process have the number that guests hand their listeners over on; False where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= box.RECORDING:
        return False
    if soft <= box.RECORDING:
        resource.setrlimit(resource.RLIMIT_NOFILE, (box.RECORDING + 1, hard))
    return True
