"""
What ``fs`` does with files: everything by descriptors, one name at a time, below a root that is held open.

A check of a path says nothing about what the path leads to a moment later.  So a folder is opened first, through real
folders of one mount, and everything after that is done in the folder that was opened, wherever its name leads by then.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from typing import Any

from fastness._linux import beneath
from fastness.capabilities._paths import RESERVED, addressable
from fastness.capabilities._threads import Stop, Stopped
from fastness.errors import AdapterError, Denied
from fastness.runs import DenialCode

__all__ = ["delete", "describe", "make_folder", "names", "read", "write"]

_CHUNK = 1 << 18
#: Entries of a folder that are looked at for what a killed host left.
_SWEPT = 10_000
#: Blocking is never wanted: a FIFO would wait for its other end.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

#: What the kernel says, and what a guest is told.
_DENIED = {
    errno.ELOOP: DenialCode.ESCAPE,
    errno.EXDEV: DenialCode.OUTSIDE,
    errno.ENOENT: DenialCode.ABSENT,
    errno.ENOTDIR: DenialCode.ABSENT,
    errno.ENAMETOOLONG: DenialCode.TOO_LARGE,
    errno.ENXIO: DenialCode.UNSUPPORTED,
}
_FAILED = {
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "something of this name is there",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.ENOSPC: "there is no room for it",
    errno.EDQUOT: "there is no room for it",
    errno.EFBIG: "there is no room for it",
    errno.EROFS: "it cannot be changed",
    errno.EACCES: "the host itself may not do this",
    errno.EPERM: "the host itself may not do this",
    errno.EBUSY: "it is in use",
}


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of the kernel as errors for a guest: in words of ours, with its own path and none of the host's."""
    try:
        yield
    except OSError as error:
        code = _DENIED.get(error.errno or 0)
        if code is not None:
            raise Denied(code, path) from error
        name = errno.errorcode.get(error.errno or 0, "an error")
        raise AdapterError(f"{path}: {_FAILED.get(error.errno or 0, f'it failed ({name})')}") from error


@contextlib.contextmanager
def _folder(root: str, parts: tuple[str, ...]) -> Iterator[int]:
    """The folder at ``parts`` below the root, open."""
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise AdapterError("the folder of this plugin cannot be opened") from error
    try:
        found = beneath.open_folder(top, "/".join(parts))
    finally:
        os.close(top)
    try:
        yield found
    finally:
        os.close(found)


def _look(folder: int, name: str, path: str) -> os.stat_result | None:
    """What an entry is, or None where there is none.  Raises Denied for a link; OSError at a mount."""
    try:
        # Not opened in earnest: that of a device may be an effect in itself.
        descriptor = beneath.open_entry(folder, name, beneath.O_PATH)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISLNK(found.st_mode):
        raise Denied(DenialCode.ESCAPE, path)
    return found


def _only_files(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise AdapterError(f"{path}: it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise Denied(DenialCode.UNSUPPORTED, path)


def read(root: str, parts: tuple[str, ...], path: str, offset: int, length: int | None, most: int, stop: Stop) -> bytes:
    """
    Bytes of a file from ``offset`` on, ``length`` of them or all.  Raises Denied ``too_large`` for more than ``most``.
    """
    with _told(path), _folder(root, parts[:-1]) as folder:
        found = _look(folder, parts[-1], path)
        if found is None:
            raise Denied(DenialCode.ABSENT, path)
        _only_files(found, path)
        descriptor = beneath.open_entry(folder, parts[-1], _READ)
        try:
            # It may be another by now: what counts is what is open.
            status = os.fstat(descriptor)
            _only_files(status, path)
            wanted = status.st_size - offset if length is None else min(length, status.st_size - offset)
            if wanted > most or (length or 0) > most:
                raise Denied(DenialCode.TOO_LARGE, path)
            # One that grows meanwhile is read as far as was asked for.
            return _bytes(descriptor, offset, max(wanted, 0), stop)
        finally:
            os.close(descriptor)


def _bytes(descriptor: int, offset: int, count: int, stop: Stop) -> bytes:
    pieces = []
    while count > 0:
        if stop:
            raise Stopped
        piece = os.pread(descriptor, min(count, _CHUNK), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        count -= len(piece)
    return b"".join(pieces)


def write(root: str, parts: tuple[str, ...], path: str, data: bytes, swept: set[tuple[int, int]], stop: Stop) -> bool:
    """
    Make ``data`` the content of a file, all of it or nothing; whether the file is new.

    It is written under a name that no guest can use and then renamed, so that a reader sees the old file or the new
    one.  A file with another name besides is not replaced: whoever wrote it under that name would be told of no change.
    """
    name = parts[-1]
    with _told(path), _folder(root, parts[:-1]) as folder:
        before = _look(folder, name, path)
        if before is not None:
            _only_files(before, path)
            if before.st_nlink != 1:
                raise Denied(DenialCode.ESCAPE, path)
        _sweep(folder, swept)
        descriptor, draft = _draft(folder)
        try:
            view = memoryview(data)
            while view:
                if stop:
                    raise Stopped
                view = view[os.write(descriptor, view[:_CHUNK]) :]
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)
            if stop:
                raise Stopped
            # What took the name meanwhile gives way to it, and is not followed where it is a link.
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(draft, dir_fd=folder)
            raise
        finally:
            os.close(descriptor)
    return before is None


def _draft(folder: int) -> tuple[int, str]:
    """A new file of ours in the folder, open and locked for as long as somebody works on it."""
    while True:
        name = f"{RESERVED}{os.urandom(8).hex()}"
        descriptor = beneath.open_entry(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Between the two calls another host may have taken it for one that was left behind.
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)


def _sweep(folder: int, swept: set[tuple[int, int]]) -> None:
    """Remove what a killed host left on its way, once for each folder."""
    status = os.fstat(folder)
    if (status.st_dev, status.st_ino) in swept:
        return
    if len(swept) < _SWEPT:
        swept.add((status.st_dev, status.st_ino))
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= _SWEPT:
                return
            if entry.name.startswith(RESERVED) and entry.is_file(follow_symlinks=False):
                _remove_unlocked(folder, entry.name)


def _remove_unlocked(folder: int, name: str) -> None:
    try:
        descriptor = beneath.open_entry(folder, name, _READ)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name, dir_fd=folder)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _kind(status: os.stat_result) -> str:
    mode = status.st_mode
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def describe(root: str, parts: tuple[str, ...], path: str) -> dict[str, Any] | None:
    """``kind`` (``file``, ``folder`` or ``other``), ``size`` and ``modified`` of an entry, or None."""
    try:
        with _told(path), _folder(root, parts[:-1]) as folder:
            found = _look(folder, parts[-1], path) if parts else os.fstat(folder)
            if found is None:
                return None
            size = found.st_size if stat.S_ISREG(found.st_mode) else 0
            return {"kind": _kind(found), "size": size, "modified": found.st_mtime}
    except Denied as denied:
        if denied.code is DenialCode.ABSENT:
            return None
        raise


def names(root: str, parts: tuple[str, ...], path: str, most: int) -> dict[str, Any]:
    """``entries`` of a folder, by name, ``most`` of them; ``more`` where there are others."""
    found: list[dict[str, Any]] = []
    with _told(path), _folder(root, parts) as folder, os.scandir(folder) as entries:
        for entry in entries:
            if not addressable(entry.name):
                continue
            if len(found) == most:
                return {"entries": sorted(found, key=lambda one: str(one["name"])), "more": True}
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            found.append({"name": entry.name, "kind": _kind(status), "size": size})
    return {"entries": sorted(found, key=lambda one: str(one["name"])), "more": False}


def delete(root: str, parts: tuple[str, ...], path: str) -> bool:
    """Remove a file or an empty folder; False where there is none."""
    name = parts[-1]
    with _told(path), _folder(root, parts[:-1]) as folder:
        found = _look(folder, name, path)
        if found is None:
            return False
        if stat.S_ISDIR(found.st_mode):
            os.rmdir(name, dir_fd=folder)
            return True
        _only_files(found, path)
        if found.st_nlink != 1:
            raise Denied(DenialCode.ESCAPE, path)
        # What took the name meanwhile loses it: a name below the root, whatever it leads to.
        os.unlink(name, dir_fd=folder)
    return True


def make_folder(root: str, parts: tuple[str, ...], path: str) -> bool:
    """Make a folder in one that is there; False where it is there already."""
    name = parts[-1]
    with _told(path), _folder(root, parts[:-1]) as folder:
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            found = _look(folder, name, path)
            if found is not None and stat.S_ISDIR(found.st_mode):
                return False
            raise
    return True
