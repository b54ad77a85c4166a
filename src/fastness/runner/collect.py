"""
What a run left in its work folder, read by the host: untrusted names, untrusted content, bounded before it is read.

The folder is walked by descriptors.  No link is followed, no pipe or device is opened for its content, and every cap
is applied to what the kernel says before a byte is allocated.  What cannot be taken is refused by name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fastness.runner.entries import Entry, Project
from fastness.runner.tree import Seen, TooManyEntries, open_seen, plain_name, shown, walk
from fastness.runs import Changes, Denial, DenialCode, File, Files

#: Refused entries that are kept; the rest are counted.
_REFUSED_MAX = 64
_PIECE = 1 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
_SPECIAL = {"pipe": "a named pipe", "socket": "a socket", "device": "a device"}


class Refused(msgspec.Struct, frozen=True):
    """An entry that was not taken: its path as it may be shown, why, and the code of the denial."""

    path: str
    why: str
    code: DenialCode


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """
    What was found.

    ``files`` and ``changes`` go into the result as they are.  ``refused`` has at most 64 rows, ``refused_dropped``
    counts the others.  ``entries`` describes every file and link that was added or changed; ``folders_gone`` are
    folders of the project that are no more.  ``outside_links`` are files with a second name outside the folder.
    ``complete`` is False where something was not looked at; then ``changes.deleted`` holds only what is known.
    ``total_bytes`` and ``total_files`` are of all regular files, changed or not.
    """

    files: Files = msgspec.field(default_factory=Files)
    changes: Changes = Changes()
    refused: tuple[Refused, ...] = ()
    refused_dropped: int = 0
    entries: dict[str, Entry] = {}
    folders_gone: tuple[str, ...] = ()
    outside_links: tuple[str, ...] = ()
    complete: bool = True
    total_bytes: int = 0
    total_files: int = 0

    @property
    def over(self) -> str:
        """Why what was left is more than may be left; empty where it is not."""
        caps = (DenialCode.TOO_LARGE, DenialCode.QUOTA)
        return next((f"{row.path}: {row.why}" for row in self.refused if row.code in caps), "")

    @property
    def denials(self) -> tuple[Denial, ...]:
        """The refused entries as rows of a result."""
        return tuple(
            Denial(capability="fs", operation="collect", target=row.path, code=row.code, layer="collect")
            for row in self.refused
        )


_EMPTY = Collected()


def collect(
    root_fd: int, before: Mapping[str, bytes | Entry] | Project, *, max_bytes: int, max_files: int
) -> Collected:
    """
    Read the folder behind ``root_fd`` and compare it with what was there before the run.

    ``before`` is what was there: path to content, or to an ``Entry`` for a link; or the project that was copied in.
    Regular files count with their apparent size against ``max_bytes``; of more than ``max_files`` entries the rest is
    not looked at.
    The descriptor stays the caller's.  Raises ``OSError`` where the folder itself cannot be read.
    """
    found = _Collection(before, max_bytes)
    try:
        for seen in walk(root_fd, max_files, found.refuse, odd=found.odd_names(), force=True):
            found.take(seen)
    except TooManyEntries as error:
        found.refuse_path(error.path, "quota", f"more than {max_files} entries; it and others were not looked at")
        found.complete = False
    if found.is_empty:
        return _EMPTY
    return found.result()


class _Collection:
    """The state of one :func:`collect`."""

    def __init__(self, before: Mapping[str, bytes | Entry] | Project, max_bytes: int) -> None:
        self._project = before if isinstance(before, Project) else None
        self._staged: Mapping[str, bytes | Entry] = {} if isinstance(before, Project) else before
        self._before: Mapping[str, Any] = before.entries if isinstance(before, Project) else before
        self._room = max_bytes
        self._files: dict[str, File] = {}
        self._entries: dict[str, Entry] = {}
        #: What was looked at, and as what; a refused entry is there, and what is below it is not known.
        self._seen: dict[str, str] = {}
        self._names: dict[tuple[int, int], list[Any]] = {}
        self._refused: list[Refused] = []
        self._dropped = 0
        self._bytes = 0
        self._count = 0
        self.complete = True

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing and is nothing."""
        return not (self._before or self._seen or self._refused or self._project)

    def refuse(self, seen: Seen, code: str, why: str) -> None:
        """An entry that cannot be taken; what is below it, if anything, was not seen."""
        self._seen[seen.path] = "refused"
        self.refuse_path(seen.path, code, why)

    def odd_names(self) -> set[str]:
        """Paths of before whose names are not plain, and those of their folders: the caller chose them."""
        found: set[str] = set()
        for path in self._staged:
            if not plain_name(path):
                parts = path.split("/")
                found.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return found

    def refuse_path(self, path: str, code: str, why: str) -> None:
        """One row, or one more that is only counted."""
        if len(self._refused) < _REFUSED_MAX:
            self._refused.append(Refused(shown(path), why, DenialCode(code)))
        else:
            self._dropped += 1

    def take(self, seen: Seen) -> None:
        """Look at one entry."""
        path, kind = seen.path, seen.kind
        if kind in _SPECIAL:
            self.refuse(seen, "unsupported", f"it is {_SPECIAL[kind]}")
        elif kind == "folder":
            self._seen[path] = kind
        elif kind == "link":
            self._take_link(seen)
        else:
            self._take_file(seen)

    # links

    def _take_link(self, seen: Seen) -> None:
        try:
            target = os.readlink(seen.name, dir_fd=seen.folder)
        except OSError:
            return
        if not plain_name(target):
            self.refuse(seen, "unsupported", "it leads to a name that is not UTF-8 or holds control characters")
            return
        self._seen[seen.path] = "link"
        known = self._before.get(seen.path)
        if isinstance(known, Entry) and known.kind == "link" and known.target == target:
            return
        self._entries[seen.path] = Entry(kind="link", target=target, size=len(target), mode=0o777)

    # files

    def _take_file(self, seen: Seen) -> None:
        try:
            descriptor = open_seen(seen, _READ, force=True)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.refuse(seen, "unsupported", f"it cannot be read: {error.strerror}")
            return
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                self.refuse(seen, "unsupported", "it is not a regular file")
                return
            if status.st_size > self._room:
                why = f"its {status.st_size} bytes pass the {self._room} bytes that file_bytes leaves"
                self.refuse(seen, "too_large", why)
                return
            self._read(seen, descriptor, status)
        except OSError as error:
            self.refuse(seen, "unsupported", f"it cannot be read: {error.strerror}")
        finally:
            os.close(descriptor)

    def _read(self, seen: Seen, descriptor: int, status: os.stat_result) -> None:
        path, size = seen.path, status.st_size
        # The mode as it was before this module opened what was closed.
        mode = stat.S_IMODE(seen.status.st_mode)
        if status.st_nlink > 1:
            known = self._names.setdefault((status.st_dev, status.st_ino), [status.st_nlink, []])
            known[1].append(path)
        data, changed = self._content(path, descriptor, size, mode)
        if data is not None and len(data) > size:
            self.refuse(seen, "too_large", "it grew while it was read")
            return
        self._seen[path] = "file"
        self._room -= size
        self._bytes += size
        self._count += 1
        if not changed:
            return
        assert data is not None
        file = self._files[path] = File(data)
        if self._project is not None:
            self._entries[path] = Entry(
                kind="file",
                size=file.size,
                mode=mode,
                mtime_ns=seen.status.st_mtime_ns,
                inode=status.st_ino,
                sha256=file.sha256,
            )

    def _content(self, path: str, descriptor: int, size: int, mode: int) -> tuple[bytes | None, bool]:
        """The content where it is another than before, and whether it, or the mode, is another."""
        staged = self._staged.get(path)
        if isinstance(staged, bytes):
            if len(staged) != size:
                return _read_whole(descriptor, size), True
            if _same(descriptor, staged):
                return None, False
            os.lseek(descriptor, 0, os.SEEK_SET)
            return _read_whole(descriptor, size), True
        known = self._before.get(path)
        if not isinstance(known, Entry) or known.kind != "file" or known.size != size or known.mode != mode:
            return _read_whole(descriptor, size), True
        if size <= _PIECE:
            data = _read_whole(descriptor, size)
            same = hashlib.sha256(data).hexdigest() == known.sha256
            return (None if same else data), not same
        if _digest(descriptor, size) == known.sha256:
            return None, False
        os.lseek(descriptor, 0, os.SEEK_SET)
        return _read_whole(descriptor, size), True

    # result

    def result(self) -> Collected:
        """Everything together."""
        was = {p for p, known in self._before.items() if not (isinstance(known, Entry) and known.kind == "folder")}
        now = set(self._files) | set(self._entries)
        gone = [path for path in sorted(was) if self._is_gone(path)]
        modes = {}
        links = {}
        for path in sorted(self._entries):
            entry, known = self._entries[path], self._before.get(path)
            if entry.kind == "link":
                links[path] = entry.target
            elif self._project is not None:
                usual = known.mode if isinstance(known, Entry) and known.kind == "file" else 0o644
                if entry.mode != usual:
                    modes[path] = f"{entry.mode:04o}"
        changes = Changes(
            tuple(sorted(now - was)),
            tuple(sorted(now & was)),
            tuple(gone),
            links=links,
            modes=modes,
            left_out=dict(self._project.left_out) if self._project is not None else {},
        )
        outside = (paths for count, paths in self._names.values() if count > len(paths))
        return Collected(
            files=Files(self._files),
            changes=changes,
            refused=tuple(self._refused),
            refused_dropped=self._dropped,
            entries=self._entries,
            folders_gone=self._folders_gone(),
            outside_links=tuple(sorted(path for paths in outside for path in paths)),
            complete=self.complete and "refused" not in self._seen.values(),
            total_bytes=self._bytes,
            total_files=self._count,
        )

    def _is_gone(self, path: str) -> bool:
        """Whether a file or link of before is known to be no more; a folder may have taken its place."""
        if path in self._seen:
            return self._seen[path] == "folder"
        return self._was_looked_for(path)

    def _was_looked_for(self, path: str) -> bool:
        """Whether everything above the path was looked at, so that what was not found is not there."""
        if not self.complete:
            return False
        above = path
        while above := above.rpartition("/")[0]:
            if self._seen.get(above) == "refused":
                return False
        return True

    def _folders_gone(self) -> tuple[str, ...]:
        if self._project is None:
            return ()
        folders = (p for p, known in self._before.items() if known.kind == "folder" and p not in self._seen)
        return tuple(sorted(p for p in folders if self._was_looked_for(p)))


def _read_whole(descriptor: int, size: int) -> bytes:
    """The content; one byte more than ``size`` where the file has grown."""
    parts: list[bytes] = []
    left = size + 1
    while left > 0 and (part := os.read(descriptor, min(left, _PIECE))):
        parts.append(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _pieces(descriptor: int, size: int) -> Iterable[bytes]:
    left = size + 1
    while left > 0 and (part := os.read(descriptor, min(left, _PIECE))):
        yield part
        left -= len(part)


def _same(descriptor: int, content: bytes) -> bool:
    at = 0
    whole = memoryview(content)
    for part in _pieces(descriptor, len(content)):
        if part != whole[at : at + len(part)]:
            return False
        at += len(part)
    return at == len(content)


def _digest(descriptor: int, size: int) -> str:
    digest = hashlib.sha256()
    for part in _pieces(descriptor, size):
        digest.update(part)
    return digest.hexdigest()
