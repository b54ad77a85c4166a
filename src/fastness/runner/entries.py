"""
What is known of a tree: its entries, and the project that they are of.
"""

from __future__ import annotations

import os

import msgspec

from fastness.errors import StagingError


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """
    One entry of a tree: ``kind`` is ``file``, ``folder`` or ``link``; ``mode`` the permission bits.

    ``size`` in bytes, ``mtime_ns`` since 1970; ``inode`` on the host's side.  ``sha256`` in hex of a file's content,
    empty until it was copied.  ``target`` is where a link leads.
    """

    kind: str
    size: int = 0
    mode: int = 0
    mtime_ns: int = 0
    inode: int = 0
    sha256: str = ""
    target: str = ""


class Project:
    """
    What :func:`snapshot` found.

    ``path`` and ``identity`` (device and inode) name the folder.  ``entries`` describes what is taken, by path below
    it, a folder before what is in it.  ``left_out`` gives each path that is not taken, and why.
    """

    __slots__ = ("path", "identity", "entries", "left_out", "max_bytes")

    def __init__(self, path: str, identity: tuple[int, int], max_bytes: int) -> None:
        self.path = path
        self.identity = identity
        self.entries: dict[str, Entry] = {}
        self.left_out: dict[str, str] = {}
        self.max_bytes = max_bytes

    def open(self) -> int:
        """The folder, opened.  Raises StagingError where it is gone or another was put in its place."""
        return open_project(self.path, self.identity)


def open_project(path: str | os.PathLike[str], identity: tuple[int, int] | None = None) -> int:
    """A descriptor of a folder of the caller's.  Raises StagingError."""
    text = os.fspath(path)
    try:
        found = os.open(text, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise StagingError(text, getattr(error, "strerror", None) or str(error)) from None
    status = os.fstat(found)
    if identity is not None and identity != (status.st_dev, status.st_ino):
        os.close(found)
        raise StagingError(text, "another folder was put in its place meanwhile", "Try again.")
    return found


def leads_inside(path: str, target: str) -> bool:
    """Whether the link ``path`` with this ``target``, read as text, stays below the top at every step."""
    if target.startswith("/"):
        return False
    depth = path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return False
    return True
