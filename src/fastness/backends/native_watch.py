"""
Looks at a confined guest now and then, for what the kernel does not bound there: its files together, and its threads.

Without a mount namespace the work folder is on the caller's disk, where the kernel knows no quota for a folder; and
without a user or group of its own a guest's threads are counted with all others of its user.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from fastness.runner.tree import Seen, TooManyEntries, walk
from fastness.runs import OutcomeKind

if TYPE_CHECKING:
    from fastness.backends.box import Box
    from fastness.limits import Limits

#: A look may take so much of the time between two looks.
_SHARE = 0.1
#: Seconds before the first look at a new guest.
_FIRST_S = 0.04
_BLOCK = 512
_PAGE = 4096


class Watch:
    """
    Called with no arguments, returns the reason for which the run is to be ended, or None.

    ``above`` is a descriptor of the folder with the guest's ``tmp``, which counts with its work folder.  A guest of a
    ``session`` may have gone on since its last execute; another one is not looked at before it can have done much.
    """

    def __init__(self, box: Box, limits: Limits, above: int, *, session: bool) -> None:
        self._box = box
        self._above = above
        self._limits = limits
        self._next = 0.0 if session else time.monotonic() + _FIRST_S

    def __call__(self) -> tuple[OutcomeKind, str] | None:
        """Look, unless the last look was long ago enough only for a short one."""
        began = time.monotonic()
        if began < self._next:
            return None
        try:
            found = self._threads() or self._files()
        except OSError:
            # A folder that changes under the look, or a guest that has just ended.
            found = None
        now = time.monotonic()
        self._next = now + (now - began) / _SHARE
        return found

    def _threads(self) -> tuple[OutcomeKind, str] | None:
        threads = len(os.listdir(f"/proc/{self._box.pid}/task"))
        if threads > self._limits.pids:
            return OutcomeKind.MEMORY, f"{threads} threads, with {self._limits.pids} allowed"
        return None

    def _files(self) -> tuple[OutcomeKind, str] | None:
        size = 0
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        temporary = os.open("tmp", flags, dir_fd=self._above)
        try:
            for folder in (self._box.work, temporary):
                for seen in walk(folder, self._limits.files + 1, _pass, force=True):
                    # What the disk rounds up is not the guest's.
                    size += max(seen.status.st_blocks * _BLOCK - _PAGE, 0) + min(seen.status.st_size, _PAGE)
        except TooManyEntries:
            return OutcomeKind.DISK, f"more than {self._limits.files} files"
        finally:
            os.close(temporary)
        if size > self._limits.file_bytes:
            return OutcomeKind.DISK, f"its files take {size} bytes, with {self._limits.file_bytes} allowed"
        return None


def _pass(seen: Seen, code: str, why: str) -> None:
    """What cannot be looked at takes no room that counts."""
