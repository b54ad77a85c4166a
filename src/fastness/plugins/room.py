"""
Room on the disk that is kept for the end of things: a file of zeros that is given up where the store has no room left.

What takes power away must be possible on a full disk, and a plugin that was granted files may have filled it.  So the
blocks that a revocation needs are taken before anything is granted (``posix_fallocate(3)``), and given back to the file
system when a revocation needs them.
"""

from __future__ import annotations

import os
import stat

__all__ = ["ROOM_BYTES", "Room"]

#: Enough for a write-ahead log of its own, its index, and a change of a few hundred grants.
ROOM_BYTES = 1 << 20


class Room:
    """The room of one store, in the file ``path``.  Any thread and process may use it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def keep(self) -> None:
        """Have it, where it is not there already.  Raises OSError where the disk has none."""
        try:
            found = os.lstat(self.path)
            if stat.S_ISREG(found.st_mode) and found.st_blocks * 512 >= ROOM_BYTES:
                return
        except FileNotFoundError:
            pass
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self.path, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, ROOM_BYTES)
        except OSError:
            # Some of it is none of it, and others may need what was had of it.
            os.unlink(self.path)
            raise
        finally:
            os.close(descriptor)

    def give_up(self) -> bool:
        """Give it back, its entry in the folder too; whether there was any."""
        try:
            os.unlink(self.path)
        except OSError:
            return False
        return True
