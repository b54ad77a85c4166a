"""
The store of native code and memory images: one folder, entries named by what they were made from.

An entry is a file and a small JSON file beside it with its size and digest.  The JSON file is written last, so an
entry without one does not exist.  Entries appear by rename only and are never changed in place.  Opening checks
owner, mode, size and digest through the very descriptor that is handed out, so what was checked is what is loaded.

The digest is against damage (a bad disk, a copy cut short).  Against an attacker stand the owner and mode of folder
and files: who can write here as this user can as well replace this program.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from typing import TYPE_CHECKING

from fastness._wasi import home
from fastness._wasi.digest import tree_digest
from fastness.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

#: Raised by one whenever the layout or the meaning of an entry changes.
FORMAT = 1

_NAME = re.compile(r"(code|image|bundle)-[0-9a-f]{32}")
_META_SUFFIX = ".json"
_TEMPORARY = "tmp-"
_LOCK = "lock-"
_META_CAP = 256 << 10
_POLL_S = 0.05
#: A link is not followed, and a pipe in a file's place does not block.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DamagedEntry(Exception):
    """An entry was not what its record says; it was removed and can be made again.  ``why`` says what was wrong."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


class Entry:
    """An entry's record: ``name``, ``size`` in bytes, ``digest`` (see :mod:`~fastness._wasi.digest`), ``info``."""

    __slots__ = ("digest", "info", "name", "size")

    def __init__(self, name: str, size: int, digest: str, info: dict[str, str]) -> None:
        self.name = name
        self.size = size
        self.digest = digest
        self.info = info


class Cache:
    """The guests' cache folder.  Making one makes and checks the folder; see :func:`fastness._wasi.home.folder`."""

    def __init__(self, path: str | None = None) -> None:
        if path is None:
            path = home.folder("cache", "guests")
        else:
            home.make_private(path)
        self.path = path

    # --- reading ---

    def lookup(self, name: str) -> Entry | None:
        """The record of an entry, or None where there is none.  The file itself is not read."""
        _check_name(name)
        try:
            fd = os.open(os.path.join(self.path, name + _META_SUFFIX), _READ)
        except OSError:
            return None
        try:
            raw = os.read(fd, _META_CAP)
        except OSError:
            return None
        finally:
            os.close(fd)
        return _parse_meta(name, raw)

    def open_checked(self, name: str) -> int:
        """
        A read-only descriptor of an entry, verified through that descriptor; the caller closes it.

        Raises ``FileNotFoundError`` where there is no entry, :class:`DamagedEntry` where it is not what its record
        says (the entry is then removed).
        """
        entry = self.lookup(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such entry", os.path.join(self.path, name))
        path = os.path.join(self.path, name)
        try:
            fd = os.open(path, _READ)
        except OSError as error:
            self.remove(name)
            raise DamagedEntry(name, f"it cannot be opened ({error.strerror})") from error
        try:
            why = _fault(fd, entry)
        except OSError as error:
            why = f"it cannot be read ({error.strerror})"
        if why:
            os.close(fd)
            self.remove(name)
            raise DamagedEntry(name, why)
        return fd

    def entries(self) -> list[Entry]:
        """Records of all entries, by name."""
        found = []
        for file in sorted(os.listdir(self.path)):
            if _NAME.fullmatch(file):
                entry = self.lookup(file)
                if entry is not None:
                    found.append(entry)
        return found

    # --- writing ---

    def put(self, name: str, writer: Callable[[int], None], info: dict[str, str] | None = None) -> Entry:
        """
        Make an entry: ``writer`` gets a read-write descriptor of an empty file and fills it.

        The caller holds the lock of ``name``.  Nothing is visible under it before the file and its record are
        complete and on disk.  What ``writer`` raises comes through and leaves nothing; an ``OSError`` of the disk
        becomes :class:`~fastness.errors.BackendError` with the path and the fix.
        """
        _check_name(name)
        step = f"writing {os.path.join(self.path, name)}"
        temporary = ""
        fd = -1
        try:
            with _explained(step):
                self.sweep()
                temporary, fd = self._temporary()
            with _explained(step):
                writer(fd)
                size = os.fstat(fd).st_size
                digest = tree_digest(fd, size)
                entry = Entry(name, size, digest, dict(info or {}))
                os.fchmod(fd, 0o400)
                os.fsync(fd)
                # The record of an older entry of this name must never describe the new file.
                self._unlink(name + _META_SUFFIX)
                os.rename(temporary, os.path.join(self.path, name))
                temporary = ""
                self._put_meta(entry)
            return entry
        finally:
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            if fd >= 0:
                os.close(fd)

    def _put_meta(self, entry: Entry) -> None:
        record = {"format": FORMAT, "size": entry.size, "digest": entry.digest, "info": entry.info}
        data = json.dumps(record, sort_keys=True).encode()
        if len(data) > _META_CAP:
            raise ValueError(f"the record of {entry.name} has {len(data)} bytes")
        temporary, fd = self._temporary()
        try:
            _write_all(fd, data)
            os.fsync(fd)
            os.rename(temporary, os.path.join(self.path, entry.name + _META_SUFFIX))
            temporary = ""
        finally:
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            os.close(fd)
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _temporary(self) -> tuple[str, int]:
        """A new file, locked for as long as its descriptor is open: an unlocked one has lost its maker."""
        for _ in range(100):
            path = os.path.join(self.path, _TEMPORARY + os.urandom(8).hex())
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_nlink:
                    return path, fd
            except BlockingIOError:
                pass
            except BaseException:
                os.close(fd)
                raise
            # A sweep came between `open` and `flock` and took the file for an orphan.
            os.close(fd)
        raise OSError(errno.EAGAIN, "no temporary file stays")

    def remove(self, name: str) -> int:
        """Remove an entry; returns the bytes freed.  Processes that have it open keep it."""
        _check_name(name)
        self._unlink(name + _META_SUFFIX)
        return self._unlink(name)

    def _unlink(self, file: str) -> int:
        path = os.path.join(self.path, file)
        try:
            size = os.lstat(path).st_size
            os.unlink(path)
        except (FileNotFoundError, IsADirectoryError):
            return 0
        return size

    def sweep(self) -> int:
        """Remove what processes that died left: files never finished, files without a record, free locks."""
        freed = 0
        for file in os.listdir(self.path):
            with contextlib.suppress(OSError):
                if file.startswith(_TEMPORARY):
                    freed += self._sweep_temporary(file)
                elif file.startswith(_LOCK) and _NAME.fullmatch(name := file.removeprefix(_LOCK)):
                    if (lock := self.try_lock(name)) is not None:
                        lock.release()
                elif _NAME.fullmatch(file):
                    freed += self._sweep_unrecorded(file)
        return freed

    def _sweep_unrecorded(self, name: str) -> int:
        # Between its two renames an entry has no record yet, but then its maker holds the lock.
        lock = self.try_lock(name) if self.lookup(name) is None else None
        if lock is None:
            return 0
        with lock:
            return self.remove(name) if self.lookup(name) is None else 0

    def _sweep_temporary(self, file: str) -> int:
        fd = os.open(os.path.join(self.path, file), _READ)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._unlink(file)
        finally:
            os.close(fd)

    # --- locks ---

    def try_lock(self, name: str) -> Lock | None:
        """The lock of what ``name`` stands for, or None where another process or thread holds it."""
        path = os.path.join(self.path, _LOCK + name)
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            # A holder removes the file when it is done: only a lock on the file of this name counts.
            try:
                current = os.lstat(path)
                mine = os.fstat(fd)
                if (current.st_dev, current.st_ino) == (mine.st_dev, mine.st_ino):
                    return Lock(path, fd)
            except FileNotFoundError:
                pass
            os.close(fd)

    def lock(self, name: str, waiting: Callable[[float], None] | None = None) -> Lock:
        """
        Wait for the lock; the kernel frees that of a process that died.

        ``waiting(seconds)`` is called some twenty times a second meanwhile and may raise to give up.
        """
        start = time.monotonic()
        while True:
            with _explained(f"locking {os.path.join(self.path, name)}"):
                lock = self.try_lock(name)
            if lock is not None:
                return lock
            if waiting is not None:
                waiting(time.monotonic() - start)
            time.sleep(_POLL_S)

    def is_locked(self, name: str) -> bool:
        """Whether somebody holds the lock now."""
        try:
            fd = os.open(os.path.join(self.path, _LOCK + name), _READ)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False


class Lock:
    """A held lock; a context manager."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def fileno(self) -> int:
        """The descriptor that holds the lock; a child that inherits it holds it too."""
        return self._fd

    def release(self) -> None:
        """Free the lock and remove its file.  Idempotent."""
        if self._fd >= 0:
            # Removed while still held, so that nobody can lock the old file and believe that it is the current one.
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._fd)
            self._fd = -1


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"not an entry's name: {name!r}")


def _parse_meta(name: str, raw: bytes) -> Entry | None:
    """A record that is not well formed counts as absent."""
    try:
        record = json.loads(raw)
        if record["format"] != FORMAT:
            return None
        size, digest, info = record["size"], record["digest"], record["info"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not isinstance(info, dict):
        return None
    return Entry(name, size, digest, {str(k): str(v) for k, v in info.items()})


def _fault(fd: int, entry: Entry) -> str:
    """What is wrong with the open file, or an empty text."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & 0o7777 not in (0o600, 0o400):
        return f"its mode is {status.st_mode & 0o7777:04o}"
    if status.st_size != entry.size:
        return f"it has {status.st_size} bytes instead of {entry.size}"
    if tree_digest(fd, entry.size) != entry.digest:
        return "its digest is wrong"
    return ""


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


_HINTS = {
    errno.ENOSPC: "free disk space, or set FASTNESS_HOME to a folder on a disk that has room",
    errno.EDQUOT: "free some of this user's disk quota, or set FASTNESS_HOME to a folder elsewhere",
    errno.EFBIG: "raise the file size limit of this process (ulimit -f)",
}


@contextlib.contextmanager
def _explained(step: str) -> Iterator[None]:
    """Turn an ``OSError`` of the disk into an error that names the path and the fix."""
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(
            error.errno or 0, "make the folder writable for this user, or set FASTNESS_HOME to one that is"
        )
        raise BackendError(step, error.strerror or error, hint) from error
