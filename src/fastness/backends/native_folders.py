"""
The folders of ``confined`` guests, some of them made ahead: on a disk, making three takes as long as a fork.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

from fastness.runtime import remove_tree

_TWO = ("work", "tmp")
#: The clock that the kernel takes times of files from where it has no finer one (clock_gettime(2)).
_CLOCK_REALTIME_COARSE = 5
#: Folders that wait at most; as many are used before the guests that had them are buried.
_MOST = 32


class Folders:
    """
    Folders below ``boxes`` with a ``work`` and a ``tmp`` in each, under names that ``name`` gives.

    What a guest may have left of modes and attributes is nobody else's: a folder is used again only where nothing of
    it, nor of the two in it, is other than it was made, down to the times (``ctime`` of inode(7) can be set by nobody).
    """

    def __init__(self, boxes: str, name: Callable[[], str]) -> None:
        self._boxes = boxes
        self._name = name
        self._lock = threading.Lock()
        #: By user; a new zygote has others.
        self._made: dict[int, list[str]] = {}
        #: What each folder and the two in it were when they were made.
        self._marks: dict[str, _Mark] = {}
        self._owner: int | None = None
        self._closed = False

    def take(self, uid: int) -> str:
        """
        A folder of user ``uid``, or of this process's where it is -1, as it was made; :meth:`give` ends its use.

        Raises ``OSError``.
        """
        with self._lock:
            made = self._made.get(uid)
            path = made.pop() if made else ""
        path = path or self._make(uid)
        mark = self._marks.get(path)
        if mark is not None and mark.newest >= time.clock_gettime_ns(_CLOCK_REALTIME_COARSE):
            # What is done to it before the kernel's clock goes on would have the same times.
            self._marks.pop(path)
        return path

    def give(self, path: str, uid: int, *, again: bool) -> None:
        """
        Have one that was taken and is used no more wait for the next where ``again`` and it is as it was made.

        Otherwise it is removed, and another is made in its place, unless there are enough.  Raises ``OSError``.
        """
        if again and self._room(uid) and self._untouched(path) and self._keep(uid, path):
            return
        self._drop(path)
        self.add(uid)

    def _untouched(self, path: str) -> bool:
        mark = self._marks.get(path)
        try:
            top = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return mark is not None and _mark(top) == mark and _are_empty(top)
        except OSError:
            return False
        finally:
            os.close(top)

    def add(self, uid: int) -> None:
        """Make one ahead, unless there are enough.  Raises ``OSError``."""
        if self._room(uid):
            path = self._make(uid)
            if not self._keep(uid, path):
                self._drop_quietly(path)

    def _room(self, uid: int) -> bool:
        with self._lock:
            return self._wanted(uid) and len(self._made.get(uid, ())) < _MOST

    def _keep(self, uid: int, path: str) -> bool:
        with self._lock:
            if self._wanted(uid):
                self._made.setdefault(uid, []).append(path)
                return True
            return False

    def _wanted(self, uid: int) -> bool:
        return not self._closed and self._owner in (None, uid)

    def _make(self, uid: int) -> str:
        path = os.path.join(self._boxes, self._name())
        os.mkdir(path, 0o700)
        try:
            top = open_folder(path)
            try:
                for name in _TWO:
                    os.mkdir(name, 0o700, dir_fd=top)
                    if uid >= 0:
                        os.chown(name, uid, uid, dir_fd=top, follow_symlinks=False)
                if uid >= 0:
                    # Last: before that nobody else can put something else in the place of the two.
                    os.fchown(top, uid, uid)
                self._marks[path] = _mark(top)
            finally:
                os.close(top)
        except OSError:
            self._drop_quietly(path)
            raise
        return path

    def _drop(self, path: str) -> None:
        self._marks.pop(path, None)
        remove(path)

    def _drop_quietly(self, path: str) -> None:
        with contextlib.suppress(OSError):  # left to a sweep
            self._drop(path)

    def names(self) -> set[str]:
        """The names of those that wait."""
        with self._lock:
            return {os.path.basename(path) for paths in self._made.values() for path in paths}

    def keep_only(self, uid: int) -> None:
        """Remove those that wait for another user; from now on only those of ``uid`` are made ahead."""
        with self._lock:
            self._owner = uid
            dropped = [path for owner, paths in self._made.items() if owner != uid for path in paths]
            self._made = {owner: paths for owner, paths in self._made.items() if owner == uid}
        for path in dropped:
            self._drop_quietly(path)

    def close(self) -> None:
        """Remove those that wait; none are made ahead from now on."""
        with self._lock:
            self._closed = True
            dropped = [path for paths in self._made.values() for path in paths]
            self._made = {}
        for path in dropped:
            self._drop_quietly(path)


class _Mark:
    """What would be another in a folder or one of the two in it, had anything been done there."""

    def __init__(self, seen: list[tuple[int, ...]]) -> None:
        self._seen = seen
        #: Nanoseconds of the newest of all times.
        self.newest = max(max(one[-3:]) for one in seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Mark) and self._seen == other._seen

    __hash__ = None  # type: ignore[assignment]  # it is compared and nothing else


def _mark(top: int) -> _Mark:
    """Of the folder behind this descriptor.  Raises ``OSError``."""
    found: list[tuple[int, ...]] = []
    for seen in (os.fstat(top), *(os.stat(name, dir_fd=top, follow_symlinks=False) for name in _TWO)):
        inode = seen.st_dev, seen.st_ino, seen.st_mode, seen.st_nlink, seen.st_uid, seen.st_gid, seen.st_size
        found.append((*inode, seen.st_ctime_ns, seen.st_mtime_ns, seen.st_atime_ns))
    return _Mark(found)


def _are_empty(top: int) -> bool:
    """Whether nothing is in the two.  Where times are another machine's, this is what shows it.  Raises ``OSError``."""
    for name in _TWO:
        folder = open_quietly(name, top)
        try:
            if os.listdir(folder):
                return False
        finally:
            os.close(folder)
    return True


def open_quietly(name: str, above: int) -> int:
    """A descriptor of the folder ``name`` in ``above``, by which listing it leaves no trace.  Raises ``OSError``."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags | os.O_NOATIME, dir_fd=above)
    except PermissionError:
        # Only its owner may, or who has power over it.
        return os.open(name, flags, dir_fd=above)


def open_folder(path: str) -> int:
    """
    A descriptor of a folder below one of ours, which is no link.  Raises ``OSError``.

    A guest has the rights to its folders before its walls stand, and packages that nobody here has read may run by
    then: a name below ``path`` is its to change, and so is ``path`` where the guest is of our own user.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def make(path: str, uid: int) -> None:
    """A folder that is open to its owner alone: user ``uid``, or this process's where it is -1.  Raises ``OSError``."""
    os.mkdir(path, 0o700)
    if uid >= 0:
        os.chown(path, uid, uid)


def remove(path: str) -> None:
    """
    Remove the folder of a guest that has ended, with whatever it has left there.  Raises ``OSError``.

    Most leave nothing, and then three calls are enough: they follow no link and remove nothing that is not empty.
    """
    try:
        top = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for name in _TWO:
                os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(path)
    except OSError:
        remove_tree(path)
