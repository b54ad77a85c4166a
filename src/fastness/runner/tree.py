"""
Walks a folder that somebody else may be changing: by descriptors, never through a link, never without an end.

Used for a project on its way in and for a guest's folder on its way out.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Container, Iterator

from fastness._linux import beneath

#: Folders below one another that are walked; deeper ones are an entry that cannot be entered.
DEPTH_MAX = 64
#: Bytes of a path below the folder.
PATH_MAX = 4096
#: What a name may not hold: control characters, and bytes that are not UTF-8 (which appear as lone surrogates).
# Compiled where it is first used: to do that takes as long as importing most modules.
_ODD = "[\x00-\x1f\x7f-\x9f\ud800-\udfff]"
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class TooManyEntries(Exception):
    """The walk met more entries than it may; ``path`` is the first beyond."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


class Seen:
    """One entry: its path below the top, its name in the open folder ``folder``, its status when it was looked at."""

    __slots__ = ("path", "name", "folder", "status", "depth")

    def __init__(self, path: str, name: str, folder: int, status: os.stat_result, depth: int) -> None:
        self.path = path
        self.name = name
        self.folder = folder
        self.status = status
        self.depth = depth

    @property
    def kind(self) -> str:
        """``file``, ``folder``, ``link``, ``pipe``, ``socket`` or ``device``."""
        return _KINDS.get(stat.S_IFMT(self.status.st_mode), "device")


def plain_name(text: str) -> bool:
    """Whether a name or path is UTF-8 without control characters."""
    return (text.isascii() and text.isprintable()) or re.search(_ODD, text) is None


def shown(text: str) -> str:
    r"""A name as it may leave: control characters and bytes that are not UTF-8 as ``\xNN``, at most 300 characters."""
    if not plain_name(text):
        text = re.sub(_ODD, lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", text)
    return text if len(text) <= 300 else text[:297] + "..."


def unlock(folder: int, name: str, kind: int, bits: int) -> int:
    """
    Give the owner ``bits`` on an entry that its mode keeps closed, and return an ``O_PATH`` descriptor of it.

    The mode is changed through that descriptor, so whatever takes the name's place meanwhile is not touched.
    Raises ``OSError``, also where the entry is not of ``kind`` (``S_IFREG`` or ``S_IFDIR``).
    """
    found = beneath.open_child(folder, name, beneath.O_PATH)
    try:
        status = os.fstat(found)
        if stat.S_IFMT(status.st_mode) != kind:
            raise OSError(errno.EINVAL, "it is something else by now")
        os.chmod(f"/proc/self/fd/{found}", stat.S_IMODE(status.st_mode) | bits)
    except BaseException:
        os.close(found)
        raise
    return found


def open_seen(seen: Seen, flags: int, *, force: bool = False) -> int:
    """
    Open what was seen, for reading; with ``force`` also where its mode forbids that to its owner.  Raises ``OSError``.
    """
    try:
        return beneath.open_child(seen.folder, seen.name, flags)
    except PermissionError:
        if not force:
            raise
    folder = bool(flags & os.O_DIRECTORY)
    held = unlock(seen.folder, seen.name, stat.S_IFDIR if folder else stat.S_IFREG, 0o700 if folder else 0o400)
    try:
        return os.open(f"/proc/self/fd/{held}", flags & ~os.O_NOFOLLOW | os.O_CLOEXEC)
    finally:
        os.close(held)


def open_top(folder: int, *, force: bool = False) -> int:
    """The folder of a descriptor opened anew, with a position of its own.  Raises ``OSError``."""
    try:
        return os.open(".", _OPEN_FOLDER | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:
        if not force:
            raise
    os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(os.fstat(folder).st_mode) | 0o700)
    return os.open(".", _OPEN_FOLDER | os.O_CLOEXEC, dir_fd=folder)


Refuse = Callable[["Seen", str, str], None]


def walk(
    top: int,
    most: int,
    refuse: Refuse,
    *,
    wanted: Callable[[Seen], bool] = lambda seen: True,
    odd: Container[str] = (),
    force: bool = False,
) -> Iterator[Seen]:
    """
    Every entry below the open folder ``top``, sorted, a folder before what is in it.

    What cannot be taken is given to ``refuse(seen, code, why)`` instead: a name that is not plain, a path that is too
    long, a folder that cannot be entered.  An entry for which ``wanted`` says no is passed over, with all below it.
    An entry that goes while it is looked at was never there.  Paths in ``odd`` may have any name.
    ``force`` opens folders that their mode keeps closed.
    Raises ``TooManyEntries`` after the first ``most``, and ``OSError`` where ``top`` itself cannot be read.
    """
    open_frames: list[int] = []
    try:
        open_frames.append(open_top(top, force=force))
        names, beyond = _names(open_frames[0], "", most)
        # What was listed and not looked at yet is held in memory, so it counts from the moment it is listed.
        room = most - len(names)
        stack = [_seen(open_frames[0], "", names, 1)]
        while stack:
            seen = next(stack[-1], None)
            if seen is None:
                stack.pop()
                os.close(open_frames.pop())
                continue
            if not wanted(seen):
                continue
            if not plain_name(seen.name) and seen.path not in odd:
                refuse(seen, "unsupported", "its name is not UTF-8 or holds control characters")
                continue
            if len(seen.path) > PATH_MAX or len(seen.path.encode("utf-8", "surrogateescape")) > PATH_MAX:
                refuse(seen, "unsupported", f"its path is longer than {PATH_MAX} bytes")
                continue
            if not stat.S_ISDIR(seen.status.st_mode):
                yield seen
                continue
            entered = _enter(seen, refuse, force=force)
            if entered is None:
                continue
            open_frames.append(entered)
            names, more = _names(entered, seen.path + "/", room)
            room -= len(names)
            beyond = beyond or more
            yield seen
            stack.append(_seen(entered, seen.path + "/", names, seen.depth + 1))
        if beyond:
            raise TooManyEntries(beyond)
    finally:
        for descriptor in open_frames:
            os.close(descriptor)


def _names(folder: int, prefix: str, room: int) -> tuple[list[os.DirEntry[str]], str]:
    """The entries of a folder, sorted; at most ``room``, and the path of one beyond where there are more."""
    found: list[os.DirEntry[str]] = []
    beyond = ""
    with os.scandir(folder) as entries:
        for entry in entries:
            if len(found) >= room:
                beyond = prefix + entry.name
                break
            found.append(entry)
    if len(found) > 1:
        found.sort(key=lambda entry: entry.name)
    return found, beyond


def _seen(folder: int, prefix: str, entries: list[os.DirEntry[str]], depth: int) -> Iterator[Seen]:
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield Seen(prefix + entry.name, entry.name, folder, status, depth)


def _enter(seen: Seen, refuse: Refuse, *, force: bool) -> int | None:
    if seen.depth > DEPTH_MAX:
        refuse(seen, "unsupported", f"it is more than {DEPTH_MAX} folders deep")
        return None
    try:
        return open_seen(seen, _OPEN_FOLDER, force=force)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            # Gone, or something else by now: as if it had never been seen.
            return None
        if error.errno == errno.EXDEV:
            refuse(seen, "outside", "another file system is mounted there")
        else:
            refuse(seen, "unsupported", f"it cannot be read: {error.strerror}")
        return None
