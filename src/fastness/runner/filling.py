"""
Copies a project below a folder of the guest's, and writes down what was really copied.

Content goes by sharing blocks where both sides lie on one file system that can (``ioctl_ficlone(2)``), else by reading
and writing: every byte passes through here once anyway, for its digest.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Mapping

from fastness._linux import beneath
from fastness._linux.fsuser import acting_as
from fastness.errors import StagingError
from fastness.runner.entries import Entry, Project
from fastness.runner.staging import DOES_NOT_FIT, TOO_LARGE

_READ = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
_WRITE = os.O_RDWR | os.O_CREAT | os.O_EXCL
_PIECE = 1 << 20
#: What is answered where a name leads to nothing of the project's any more, or to nothing that this user may read.
_WENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EACCES, errno.ENXIO)
#: ``_IOW(0x94, 9, int)`` of linux/fs.h: share the blocks of another file.
_FICLONE = 0x40049409


def fill(
    project: Project, into_fd: int, *, uid: int = -1, gid: int = -1, files: Mapping[str, bytes] | None = None
) -> None:
    """
    Copy the project below the open, empty folder ``into_fd`` and write down in it what was copied.

    Everything made is given to ``uid`` and ``gid`` where they are not -1, and has the modes (without set-id bits) and
    modification times of the original.  A file that has gone since is left out; of one that has changed, what is
    there now is taken.  ``files`` are put on top: path to content.
    Raises StagingError where the copy does not fit or cannot be written, also where the project has grown past its
    bytes; what was written by then is left.
    """
    top = project.open()
    copy = _Copy(project, top, into_fd, uid, gid)
    try:
        copy.all()
    finally:
        copy.close()
        os.close(top)
    if files:
        project.entries.update(fill_files(files, into_fd, uid=uid, gid=gid))


class _Copy:
    """The state of one :func:`fill`.  Of each side, the folder that was used last is kept open."""

    def __init__(self, project: Project, top: int, into: int, uid: int, gid: int) -> None:
        self._project = project
        self._top = top
        self._into = into
        self._uid = uid
        self._gid = gid
        self._room = project.max_bytes
        self._clones = True
        self._at: str | None = None
        self._source = -1
        self._target = -1

    def close(self) -> None:
        """Close what is kept open."""
        if self._at is not None:
            os.close(self._source)
            os.close(self._target)
        self._at = None

    def all(self) -> None:
        """Everything, then the modes and times of folders: making entries in one changes its times."""
        entries = self._project.entries
        for path in list(entries):
            entry = entries[path]
            folder, _, name = path.rpartition("/")
            try:
                if not self._go(folder):
                    self._drop(path)
                elif entry.kind == "folder":
                    with acting_as(self._uid, self._gid):
                        os.mkdir(name, 0o700, dir_fd=self._target)
                elif entry.kind == "link":
                    with acting_as(self._uid, self._gid):
                        os.symlink(entry.target, name, dir_fd=self._target)
                    self._own(name, entry)
                else:
                    self._file(path, name)
            except OSError as error:
                raise _no_room(path, error) from None
        self.close()
        for path in reversed(list(entries)):
            if entries[path].kind == "folder":
                self._finish_folder(path, entries[path])

    def _go(self, folder: str) -> bool:
        """Have the folder open on both sides; False where the original is gone or no folder any more."""
        if self._at == folder:
            return True
        self.close()
        try:
            source = beneath.open_folder(self._top, folder)
        except OSError as error:
            if error.errno in _WENT:
                return False
            raise
        try:
            self._target = beneath.open_folder(self._into, folder)
        except BaseException:
            os.close(source)
            raise
        self._at, self._source = folder, source
        return True

    def _drop(self, path: str) -> None:
        del self._project.entries[path]
        self._project.left_out[path] = "it went, or became something else, before it was copied"

    def _own(self, name: str, entry: Entry) -> None:
        if self._uid != -1 or self._gid != -1:
            os.chown(name, self._uid, self._gid, dir_fd=self._target, follow_symlinks=False)
        os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=self._target, follow_symlinks=False)

    def _file(self, path: str, name: str) -> None:
        try:
            source = beneath.open_child(self._source, name, _READ)
        except OSError as error:
            if error.errno not in _WENT:
                raise
            self._drop(path)
            return
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                self._drop(path)
                return
            with acting_as(self._uid, self._gid):
                target = beneath.open_child(self._target, name, _WRITE, 0o600)
            try:
                size, digest = self._content(path, source, target, status.st_size)
                finish(target, status, self._uid, self._gid)
            finally:
                os.close(target)
        finally:
            os.close(source)
        self._project.entries[path] = Entry(
            kind="file",
            size=size,
            mode=status.st_mode & 0o777,
            mtime_ns=status.st_mtime_ns,
            inode=status.st_ino,
            sha256=digest,
        )

    def _content(self, path: str, source: int, target: int, size: int) -> tuple[int, str]:
        """Copy, and the size and digest of the copy."""
        reader = source
        if self._clones and 0 < size <= self._room:
            try:
                fcntl.ioctl(target, _FICLONE, source)
                reader = target
            except OSError:
                # Another file system, or one without shared blocks: the same for all that follow.
                self._clones = False
        digest = hashlib.sha256()
        copied = 0
        while part := os.read(reader, _PIECE):
            copied += len(part)
            if copied > self._room:
                why = f"it has grown: the project passes its {self._project.max_bytes} bytes"
                raise StagingError(path, why, TOO_LARGE)
            digest.update(part)
            if reader != target:
                write_all(target, part)
        self._room -= copied
        return copied, digest.hexdigest()

    def _finish_folder(self, path: str, entry: Entry) -> None:
        try:
            folder = beneath.open_folder(self._into, path)
            try:
                if self._uid != -1 or self._gid != -1:
                    os.fchown(folder, self._uid, self._gid)
                os.utime(folder, ns=(entry.mtime_ns, entry.mtime_ns))
                os.fchmod(folder, entry.mode)
            finally:
                os.close(folder)
        except OSError as error:
            raise _no_room(path, error) from None


def fill_files(files: Mapping[str, bytes], into_fd: int, *, uid: int = -1, gid: int = -1) -> dict[str, Entry]:
    """
    Write ``files`` (path to content) below an open folder, with their folders, and return what was written.

    A file that is there already is replaced.  Raises StagingError.
    """
    written: dict[str, Entry] = {}
    for path, content in files.items():
        try:
            written.update(_put(path, content, into_fd, uid, gid))
        except OSError as error:
            raise _no_room(path, error) from None
    return written


def _put(path: str, content: bytes, into: int, uid: int, gid: int) -> dict[str, Entry]:
    made: dict[str, Entry] = {}
    *parents, name = path.split("/")
    here = beneath.open_folder(into, "")
    try:
        for depth, part in enumerate(parents, 1):
            try:
                with acting_as(uid, gid):
                    os.mkdir(part, 0o755, dir_fd=here)
                if uid != -1 or gid != -1:
                    os.chown(part, uid, gid, dir_fd=here, follow_symlinks=False)
                made["/".join(parents[:depth])] = Entry(kind="folder", mode=0o755)
            except FileExistsError:
                pass
            deeper = beneath.open_folder(here, part)
            os.close(here)
            here = deeper
        try:
            os.unlink(name, dir_fd=here)
        except FileNotFoundError:
            pass
        with acting_as(uid, gid):
            target = beneath.open_child(here, name, _WRITE, 0o644)
        try:
            write_all(target, content)
            os.fchmod(target, 0o644)
            if uid != -1 or gid != -1:
                os.fchown(target, uid, gid)
        finally:
            os.close(target)
    finally:
        os.close(here)
    digest = hashlib.sha256(content).hexdigest()
    made[path] = Entry(kind="file", size=len(content), mode=0o644, inode=-1, sha256=digest)
    return made


def finish(target: int, status: os.stat_result, uid: int, gid: int) -> None:
    """Owner, permission bits and modification time of an open file, in the order in which they survive."""
    if uid != -1 or gid != -1:
        os.fchown(target, uid, gid)
    os.fchmod(target, status.st_mode & 0o777)
    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))


def write_all(target: int, content: bytes) -> None:
    """Write all of it.  Raises ``OSError``."""
    view = memoryview(content)
    while view:
        view = view[os.write(target, view) :]


def _no_room(path: str, error: OSError) -> StagingError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StagingError(path, "the copy does not fit into the guest's folder", DOES_NOT_FIT)
    return StagingError(path, f"it cannot be copied: {error.strerror}")
