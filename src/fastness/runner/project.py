"""
The copy of a project that a command works on: what is taken, what is left out, and how it gets into the guest.

``snapshot`` looks at the folder and decides.  ``fill`` copies, and writes down what was really copied: size, times,
inode and digest, against which the result is compared and later applied.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping

import msgspec

from fastness._linux import beneath
from fastness.errors import StagingError
from fastness.runner.tree import Seen, TooManyEntries, open_seen, plain_name, shown, walk
from fastness.runner.withheld import config_has_credentials, looks_secret

_READ = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
_WRITE = os.O_RDWR | os.O_CREAT | os.O_EXCL
_PIECE = 1 << 20
#: ``_IOW(0x94, 9, int)`` of linux/fs.h: share the blocks of another file.
_FICLONE = 0x40049409
#: A file that git reads its settings from; larger ones are not looked into and are left out.
_GIT_CONFIG_MAX = 1 << 20
_SPECIAL = {"pipe": "a named pipe", "socket": "a socket", "device": "a device"}


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
        raise StagingError(text, "another folder was put in its place meanwhile")
    return found


# ------------------------------------------------------------------------------------------------------------ looking


def snapshot(folder: str | os.PathLike[str], *, max_bytes: int, max_files: int, include: Iterable[str] = ()) -> Project:
    """
    Look at a project and decide what of it a guest gets.  Nothing is copied yet.

    Left out and listed: what looks like a secret, unless ``include`` names it (by path, or by name); ``.git/config``
    where it holds credentials; links that lead out; sockets, pipes, devices; other file systems; what this user
    cannot read; and names that are not UTF-8 or hold control characters.
    Raises StagingError where the folder cannot be read, or holds more than ``max_bytes`` or ``max_files`` entries.
    """
    path = os.path.abspath(os.fspath(folder))
    top = open_project(path)
    try:
        status = os.fstat(top)
        project = Project(path, (status.st_dev, status.st_ino), max_bytes)
        _Look(project, top, tuple(include)).all(max_files)
    finally:
        os.close(top)
    return project


class _Look:
    """The state of one :func:`snapshot`."""

    def __init__(self, project: Project, top: int, include: tuple[str, ...]) -> None:
        self._project = project
        self._top = top
        self._include = include
        self._bytes = 0
        self._beyond = ""

    def all(self, max_files: int) -> None:
        """Walk the whole folder.  Raises StagingError."""
        project = self._project
        try:
            for seen in walk(self._top, max_files, self._leave_out, wanted=self._is_wanted):
                self._take(seen)
        except TooManyEntries as error:
            raise StagingError(
                shown(error.path), f"{project.path} holds more than the {max_files} entries that limits.files allows"
            ) from None
        except OSError as error:
            raise StagingError(project.path, error.strerror or str(error)) from None
        if self._beyond:
            raise StagingError(
                self._beyond,
                f"it does not fit: {project.path} holds {self._bytes} bytes, "
                f"{self._bytes - project.max_bytes} more than the {project.max_bytes} of limits.file_bytes",
            )

    def _leave_out(self, seen: Seen, code: str, why: str) -> None:
        self._project.left_out[shown(seen.path)] = why

    def _is_wanted(self, seen: Seen) -> bool:
        why = looks_secret(seen.path, self._include)
        if why:
            self._leave_out(seen, "not_granted", why)
        return not why

    def _take(self, seen: Seen) -> None:
        kind, status = seen.kind, seen.status
        if kind in _SPECIAL:
            self._leave_out(seen, "unsupported", f"it is {_SPECIAL[kind]}")
            return
        target = ""
        if kind == "link":
            target = self._target(seen)
            if not target:
                return
        elif kind == "file":
            if not self._may_read(seen):
                return
            self._bytes += status.st_size
            if self._bytes > self._project.max_bytes and not self._beyond:
                self._beyond = seen.path
        self._project.entries[seen.path] = Entry(
            kind=kind,
            size=0 if kind == "folder" else status.st_size,
            mode=status.st_mode & 0o777,
            mtime_ns=status.st_mtime_ns,
            inode=status.st_ino,
            target=target,
        )

    def _target(self, seen: Seen) -> str:
        """Where a link leads, where that is inside; else it is left out."""
        try:
            target = os.readlink(seen.name, dir_fd=seen.folder)
        except OSError:
            return ""
        if not plain_name(target):
            self._leave_out(seen, "unsupported", "it leads to a name that is not UTF-8 or holds control characters")
        elif not leads_inside(seen.path, target) or not beneath.stays_inside(self._top, seen.path):
            self._leave_out(seen, "outside", "it is a link that leads out of the folder")
        else:
            return target
        return ""

    def _may_read(self, seen: Seen) -> bool:
        if not os.access(seen.name, os.R_OK, dir_fd=seen.folder, effective_ids=True, follow_symlinks=False):
            self._leave_out(seen, "unsupported", "this user cannot read it")
            return False
        if seen.name == "config" and seen.path.endswith(".git/config") and seen.path not in self._include:
            try:
                descriptor = open_seen(seen, _READ)
            except OSError:
                return False
            try:
                text = os.read(descriptor, _GIT_CONFIG_MAX + 1)
            finally:
                os.close(descriptor)
            if len(text) > _GIT_CONFIG_MAX or config_has_credentials(text):
                self._leave_out(seen, "not_granted", "it holds credentials")
                return False
        return True


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


# ------------------------------------------------------------------------------------------------------------ copying


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
                    os.mkdir(name, 0o700, dir_fd=self._target)
                elif entry.kind == "link":
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
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EACCES):
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
        except OSError:
            self._drop(path)
            return
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                self._drop(path)
                return
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
                raise StagingError(path, f"it has grown: the project passes its {self._project.max_bytes} bytes")
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
        return StagingError(path, "the copy does not fit into the guest's folder; raise limits.file_bytes or files")
    return StagingError(path, f"it cannot be copied: {error.strerror}")
