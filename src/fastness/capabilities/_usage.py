"""
How much lies in a folder: counted by looking, and kept for as long as looking again would take too much of the time.

Nothing is written down, so there is nothing that could drift from what is there: files that somebody else adds or
removes count from the next look on.
"""

from __future__ import annotations

import os
import stat
import threading
import time

from fastness.errors import QuotaExceeded
from fastness.limits import KIB, in_words

__all__ = ["ENTRY_BYTES", "Usage"]

#: What a file or folder counts for beside its bytes: about what it takes on disk.
ENTRY_BYTES = 4 * KIB
#: Seconds that a count is good for, and as how many times as long as the look took.
_FRESH_S = 1.0
_RARELY = 20
#: Folders whose counts are kept.
_KEPT = 4096


class _Count:
    __slots__ = ("lock", "used", "until")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.used = 0
        self.until = 0.0


class Usage:
    """The counts of any number of folders.  Any thread may use it; where it looks it blocks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[int, int], _Count] = {}

    def take(self, root: str, grows: int, most: int, path: str) -> None:
        """
        Let a folder grow by so many bytes, where it does not hold more than ``most`` then.

        Raises QuotaExceeded, and nothing is taken; ``path`` is what is told.  OSError where it cannot be looked at.
        """
        count = self._count(root)
        with count.lock:
            if time.monotonic() >= count.until:
                self._look(count, root, most)
            if count.used + grows > most:
                raise QuotaExceeded(f"{path}: its folder may hold {in_words(most)} in all; delete some of it")
            count.used += grows

    def give(self, root: str, shrinks: int) -> None:
        """A folder holds so many bytes less, or more where that is negative and nobody is asked."""
        count = self._count(root)
        with count.lock:
            count.used = max(0, count.used - shrinks)

    def _count(self, root: str) -> _Count:
        status = os.stat(root)
        with self._lock:
            if len(self._counts) >= _KEPT:
                self._counts.clear()
            return self._counts.setdefault((status.st_dev, status.st_ino), _Count())

    @staticmethod
    def _look(count: _Count, root: str, most: int) -> None:
        began = time.monotonic()
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            count.used = _held(descriptor, os.fstat(descriptor).st_dev, most)
        finally:
            os.close(descriptor)
        now = time.monotonic()
        count.until = now + max(_FRESH_S, _RARELY * (now - began))


def _held(folder: int, device: int, most: int) -> int:
    """What lies below an open folder, of its own file system; no further than past ``most``."""
    held = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
                held += ENTRY_BYTES + (status.st_size if stat.S_ISREG(status.st_mode) else 0)
                if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
                    below = os.open(entry.name, flags, dir_fd=folder)
                    try:
                        held += _held(below, device, most - held)
                    finally:
                        os.close(below)
            except OSError:
                # It went, or became another thing, meanwhile; or the host itself may not look, and so not write.
                continue
            if held > most:
                break
    return held
