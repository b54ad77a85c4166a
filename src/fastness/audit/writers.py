"""
Which processes write an audit trail just now: a locked file for each, so that a dead one is told from a slow one.

A lock of ``flock(2)`` goes with the last descriptor of the file, and so with the process, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import re

__all__ = ["Writer", "bury", "dead"]

_NAME = re.compile(r"[0-9a-f]{16}")


class Writer:
    """
    This process, as a writer: ``name`` is in each record that it writes, all of which come after record ``since``.

    A process that ends well removes its file, so that a file without a lock is that of one which may owe outcomes.
    """

    def __init__(self, folder: str, since: int) -> None:
        """Raises OSError."""
        self._folder = folder
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        while True:
            self.name = os.urandom(8).hex()
            path = os.path.join(folder, self.name)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            # Between the two calls another process may have taken the file for a dead one's, and removed it.
            if os.fstat(self._descriptor).st_nlink:
                break
            os.close(self._descriptor)
        # One that died before this owes nothing.
        os.write(self._descriptor, b"%d\n" % since)

    def close(self) -> None:
        """No longer a writer; it owes nothing."""
        bury(self._folder, self.name)
        self.leave()

    def leave(self) -> None:
        """In a child: what the parent locked stays the parent's."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def dead(folder: str) -> dict[str, int]:
    """The writers that are no more and left their file, by name, with the record after which all of theirs come."""
    found = {}
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return {}
    for name in names:
        if not _NAME.fullmatch(name):
            continue
        try:
            descriptor = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = os.read(descriptor, 32).strip()
            found[name] = int(text) if text.isdigit() else 0
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)
    return found


def bury(folder: str, name: str) -> None:
    """Remove the file of a writer."""
    try:
        os.unlink(os.path.join(folder, name))
    except FileNotFoundError:
        pass
