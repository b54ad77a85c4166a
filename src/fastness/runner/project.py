"""
The copy of a project that a command works on: what is taken, and what is left out.

``snapshot`` looks at the folder and decides.  ``fill`` (of ``fastness.runner.filling``) copies, and writes down what
was copied: size, times, inode and digest, against which the result is compared and later applied.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable

from fastness._linux import beneath
from fastness.errors import StagingError
from fastness.runner.entries import Entry, Project, leads_inside, open_project
from fastness.runner.filling import fill, fill_files
from fastness.runner.staging import TOO_LARGE, TOO_MANY
from fastness.runner.tree import Seen, TooManyEntries, open_seen, plain_name, shown, walk
from fastness.runner.withheld import config_has_credentials, looks_secret, names, spelled

__all__ = ["Entry", "Project", "fill", "fill_files", "snapshot"]

_READ = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
#: What settings of git are called: of a repository, its submodules and work trees, and of a user.
_SETTINGS = re.compile(r"(?:^|/)(?:config(?:\.worktree)?|\.gitconfig)$")
#: Where they are git's for sure.  Elsewhere, in a bare repository or one that another tool keeps, they have a section
#: of one of these names.
_GIT_FOLDER = re.compile(r"(?:^|/)[^/]*\.git/")
_SECTION = re.compile(
    rb"^\s*\[(?:core|remote|url|user|http|credential|include|includeif|sendemail|imap|github)\b",
    re.IGNORECASE | re.MULTILINE,
)
#: A file that git reads its settings from; larger ones are not looked into and are left out.
_GIT_CONFIG_MAX = 1 << 20
_SPECIAL = {"pipe": "a named pipe", "socket": "a socket", "device": "a device"}


def snapshot(folder: str | os.PathLike[str], *, max_bytes: int, max_files: int, include: Iterable[str] = ()) -> Project:
    """
    Look at a project and decide what of it a guest gets.  Nothing is copied yet.

    Left out and listed: what looks like a secret, unless ``include`` names it (by path, or by name); settings of
    git that hold credentials; links that lead out; sockets, pipes, devices; other file systems; what this user
    cannot read; and names that are not UTF-8 or hold control characters.
    Raises StagingError where the folder cannot be read, or holds more than ``max_bytes`` or ``max_files`` entries.
    """
    path = os.path.abspath(os.fspath(folder))
    top = open_project(path)
    try:
        status = os.fstat(top)
        project = Project(path, (status.st_dev, status.st_ino), max_bytes)
        _Look(project, top, tuple(map(spelled, include))).all(max_files)
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
        except TooManyEntries:
            # Which entry is one too many is chance, and may be one that would have been left out.
            why = f"it holds more than the {max_files} files and folders that limits.files allows"
            raise StagingError(project.path, why, TOO_MANY) from None
        except OSError as error:
            raise StagingError(project.path, error.strerror or str(error)) from None
        if self._beyond:
            raise StagingError(
                self._beyond,
                f"it does not fit: {project.path} holds {self._bytes} bytes, "
                f"{self._bytes - project.max_bytes} more than the {project.max_bytes} of limits.file_bytes",
                TOO_LARGE,
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
        """Whether this user can read a file, and whether it is none of git's that holds credentials."""
        try:
            descriptor = open_seen(seen, _READ)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self._leave_out(seen, "unsupported", f"it cannot be read: {error.strerror}")
            return False
        try:
            if not _SETTINGS.search(seen.path) or any(names(item, seen.path) for item in self._include):
                return True
            text = os.read(descriptor, _GIT_CONFIG_MAX + 1)
        except OSError as error:
            self._leave_out(seen, "unsupported", f"it cannot be read: {error.strerror}")
            return False
        finally:
            os.close(descriptor)
        if not _GIT_FOLDER.search(seen.path) and not _SECTION.search(text):
            return True
        if len(text) > _GIT_CONFIG_MAX or config_has_credentials(text):
            self._leave_out(seen, "not_granted", "it holds credentials")
            return False
        return True
