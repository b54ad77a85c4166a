"""
Making files in a file system of another user namespace (``setfsuid(2)``).

A file system that was mounted in a user namespace takes no file of a user that the namespace does not know, root of the
host among them.  Whoever may become the user makes the file as the user instead.  Only the calling thread is concerned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastness._linux.syscalls import raw

_NOBODY_ASKED = 0xFFFFFFFF


@contextmanager
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """
    Let this thread use files as ``uid`` and ``gid``, and as itself again afterwards; -1 changes nothing.

    Meanwhile root has no power over other users' files.  Raises ``PermissionError`` where the thread may not.
    """
    if uid == -1:
        yield
        return
    # SAFETY: integers only; both calls return the former value and cannot fail otherwise.
    group = raw("setfsgid", gid)
    user = raw("setfsuid", uid)
    try:
        # SAFETY: an invalid number changes nothing, so the call tells what holds.
        if raw("setfsuid", _NOBODY_ASKED) != uid:
            raise PermissionError(1, f"this process may not use files as user {uid}")
        yield
    finally:
        # SAFETY: as above.
        raw("setfsuid", user)
        raw("setfsgid", group)
