"""
Whose a control group is: its maker holds a lock on the group's folder for as long as it lives (``flock(2)``).

The kernel lets go of the lock when the last process that has it ends, however it ends.  So a group that nobody holds
is one whose owner is gone, also where the owner's own files were under a home that is gone with it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

#: Seconds for a sweep that met a group before it was held to be through with it.
_WAIT_S = 2.0


def make(folder: str) -> int:
    """
    Make a group, or take the one that is there, and hold it; returns the descriptor that holds it.

    Raises ``OSError``, ``EBUSY`` where another process goes on holding it.
    """
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            os.mkdir(folder, 0o755)
        except FileExistsError:
            pass
        held = take(folder)
        if held >= 0:
            return held
        if time.monotonic() > end:
            raise OSError(errno.EBUSY, "another process holds this control group", folder)
        time.sleep(0.001)


def take(folder: str) -> int:
    """A descriptor that holds a group from now on; -1 where another process holds it, and where it is gone."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    if _take(held) and is_at(held, folder):
        return held
    os.close(held)
    return -1


def _take(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_at(held: int, folder: str) -> bool:
    """Whether what ``held`` holds is the group of that name still: who held it before may have removed it."""
    try:
        return os.path.samestat(os.fstat(held), os.stat(folder, follow_symlinks=False))
    except OSError:
        return False
