"""
A folder as a stream of records: what goes into a container's work folder, and what comes out of it.

The host imports this file, and its text runs in the container too.  A record is four bytes with the length of a head,
the head as JSON, and as many bytes of content as it says; an empty head ends the stream.  The side that reads trusts
nothing of it: a path is taken once, below a folder that an earlier record has made, so that no link is followed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD_CAP = 1 << 15
#: Bytes of a path; what lies deeper is not sent, and counted.
PATH_CAP = 2048
_PIECE = 1 << 18
_KINDS = frozenset(("file", "folder", "link", "pipe", "socket", "device"))
_END = b"\0\0\0\0"
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BadParcel(Exception):
    """The stream is not one that this module writes."""


def _head(fields: dict[str, object]) -> bytes:
    text = json.dumps(fields).encode()
    return len(text).to_bytes(4, "big") + text


def of_files(files: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """Records of files with this content, and of the folders above them."""
    made: set[str] = set()
    for path, content in files:
        parts = path.split("/")
        for count in range(1, len(parts)):
            folder = "/".join(parts[:count])
            if folder not in made:
                made.add(folder)
                yield _head({"p": folder, "k": "folder", "m": 0o755})
        yield _head({"p": path, "k": "file", "m": 0o644, "s": len(content)}) + content
    yield _END


def of_folder(root: int, max_bytes: int = 1 << 50, max_files: int = 1 << 40) -> Iterator[bytes]:
    """
    Records of everything below an open folder, whoever may be changing it meanwhile.

    A file is sent as long as it was when it was opened: what it lacks by then is zeros.  What is beyond ``max_bytes``
    of contents, or ``max_files`` entries, is named and not sent.  However many folders there are, few are open at once.
    """
    budget = _Budget(max_bytes, max_files)
    waiting = [""]
    while waiting and budget.entries >= 0:
        above = waiting.pop()
        try:
            folder = _open_below(root, above)
        except OSError:
            budget.skipped += 1
            continue
        below: list[str] = []
        try:
            for name in sorted(os.listdir(folder)):
                path = f"{above}/{name}" if above else name
                if len(os.fsencode(path)) > PATH_CAP:
                    budget.skipped += 1
                    continue
                budget.entries -= 1
                if budget.entries < 0:
                    yield _head({"p": path, "k": "beyond"})
                    break
                try:
                    yield from _entry(folder, name, path, below, budget)
                except OSError:
                    budget.skipped += 1
        except OSError:
            budget.skipped += 1
        finally:
            os.close(folder)
        waiting += below
    if budget.skipped:
        yield _head({"p": "", "k": "skipped", "s": 0, "n": budget.skipped})
    yield _END


class _Budget:
    """What may still be sent, and how many entries could not be."""

    def __init__(self, size: int, entries: int) -> None:
        self.size = size
        self.entries = entries
        self.skipped = 0


def _open_below(root: int, path: str) -> int:
    """A folder below an open one, no link followed."""
    found = os.dup(root)
    for part in path.split("/") if path else ():
        try:
            following = os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=found)
        finally:
            os.close(found)
        found = following
    return found


def of_path(path: str, max_bytes: int, max_files: int) -> Iterator[bytes]:
    """As :func:`of_folder`, of the folder at a path, which its user may have closed."""
    if not os.access(path, os.R_OK | os.X_OK):
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield from of_folder(folder, max_bytes, max_files)
    finally:
        os.close(folder)


def _entry(folder: int, name: str, path: str, below: list[str], budget: _Budget) -> Iterator[bytes]:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode, kind = stat.S_IMODE(status.st_mode), stat.S_IFMT(status.st_mode)
    fields = {"p": path, "m": mode & 0o777, "t": status.st_mtime_ns}
    if kind == stat.S_IFDIR:
        # The program may have closed its own folders and files; they are its user's, and so are we.
        if mode & 0o500 != 0o500:
            os.chmod(name, mode | 0o700, dir_fd=folder, follow_symlinks=os.chmod not in os.supports_follow_symlinks)
        os.close(os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=folder))
        below.append(path)
        yield _head({**fields, "k": "folder"})
    elif kind == stat.S_IFLNK:
        head = _head({**fields, "k": "link", "l": os.readlink(name, dir_fd=folder)})
        if len(head) > HEAD_CAP:
            raise OSError
        yield head
    elif kind == stat.S_IFREG:
        if not mode & 0o400:
            os.chmod(name, mode | 0o600, dir_fd=folder, follow_symlinks=os.chmod not in os.supports_follow_symlinks)
        file = os.open(name, _OPEN, dir_fd=folder)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise OSError
            left = status.st_size
            if left > budget.size:
                yield _head({"p": path, "k": "beyond"})
                return
            budget.size -= left
            yield _head({**fields, "k": "file", "s": left})
            while left > 0:
                data = os.read(file, min(_PIECE, left)) or b"\0" * min(_PIECE, left)
                left -= len(data)
                yield data
        finally:
            os.close(file)
    else:
        names = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
        yield _head({**fields, "k": names.get(kind, "device")})


class Unpacker:
    """
    Puts records below an open, empty folder as their bytes come.

    ``done`` is true after the last one; ``skipped`` counts entries that the other side did not send.  Entries beyond
    ``max_files`` and bytes beyond ``max_bytes`` are left out and counted in ``beyond``, and never written.  Where it is
    to be ``whole``, an entry that was not sent is an error: who compares later would take it for deleted.
    """

    def __init__(self, root: int, max_bytes: int, max_files: int, *, whole: bool = False) -> None:
        self._root = root
        self._whole = whole
        self._room = max_bytes
        self._count = max_files
        self._held = bytearray()
        self._folders = {"": 0o700}
        self._paths: set[str] = set()
        self._file = -1
        self._left = 0
        self._mode = 0
        self._time = 0
        self.done = False
        self.skipped = 0
        self.beyond = ""

    def feed(self, data: bytes) -> None:
        """Take some in.  Raises BadParcel, ``OSError``."""
        self._held += data
        while True:
            if self._left > 0:
                if not self._held:
                    return
                part = bytes(self._held[: self._left])
                del self._held[: len(part)]
                self._content(part)
                continue
            if len(self._held) < 4:
                return
            size = int.from_bytes(self._held[:4], "big")
            if self.done or size > HEAD_CAP:
                raise BadParcel("a head is too large, or came after the end")
            if size == 0:
                del self._held[:4]
                self._finish()
                continue
            if len(self._held) < 4 + size:
                return
            text = bytes(self._held[4 : 4 + size])
            del self._held[: 4 + size]
            self._record(text)

    def close(self) -> None:
        """Let go of a file that is open."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _record(self, text: bytes) -> None:
        try:
            head = json.loads(text)
            path, kind = head["p"], head["k"]
            mode, size, when = head.get("m", 0), head.get("s", 0), head.get("t", 0)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadParcel("a head is no JSON of ours") from None
        if not all(type(number) is int for number in (mode, size, when)) or not 0 <= size < 1 << 50:
            raise BadParcel("a number is none")
        if kind == "skipped":
            if self._whole:
                raise BadParcel("some of its paths are too long, or cannot be read")
            self.skipped += max(0, min(int(head.get("n", 1)), 1 << 40)) if type(head.get("n", 1)) is int else 1
            return
        if kind == "beyond" and type(path) is str and _is_path(path):
            self.beyond = self.beyond or path
            return
        if (
            type(path) is not str
            or type(kind) is not str
            or kind not in _KINDS
            or not _is_path(path)
            or path in self._paths
        ):
            raise BadParcel("a path, or its kind, is not one that may come")
        above = path.rpartition("/")[0]
        if above not in self._folders:
            raise BadParcel("an entry came before its folder")
        self._count -= 1
        if self._count >= 0:
            # Of what is left out nothing is kept: it may be without end.
            self._paths.add(path)
        self._left = size if kind == "file" else 0
        if self._count < 0 or self._left > self._room:
            # Its content is read past, so that what follows is still understood.
            self.beyond = self.beyond or path
            if kind == "folder":
                raise BadParcel("more folders than may be there")
            return
        try:
            self._make(path, kind, mode & 0o777, when, head)
        except (ValueError, UnicodeError):
            raise BadParcel("a name cannot be used") from None

    def _make(self, path: str, kind: str, mode: int, when: int, head: dict[str, object]) -> None:
        if kind == "folder":
            os.mkdir(path, 0o700, dir_fd=self._root)
            self._folders[path] = mode
        elif kind == "link":
            target = head.get("l")
            if type(target) is not str or not target:
                raise BadParcel("a link leads nowhere")
            os.symlink(target, path, dir_fd=self._root)
        elif kind == "file":
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o600, dir_fd=self._root)
            self._mode, self._time = mode, max(0, min(when, 1 << 62))
            self._room -= self._left
            if not self._left:
                self._content(b"")
        elif kind == "pipe":
            os.mkfifo(path, 0o600, dir_fd=self._root)
        else:
            # A socket's name stands for a device too, which cannot be made without power and is refused as well.
            os.mknod(path, 0o600 | stat.S_IFSOCK, dir_fd=self._root)

    def _content(self, part: bytes) -> None:
        self._left -= len(part)
        if self._file < 0:
            return
        view = memoryview(part)
        while view:
            view = view[os.write(self._file, view) :]
        if not self._left:
            os.fchmod(self._file, self._mode)
            if self._time:
                os.utime(self._file, ns=(self._time, self._time))
            self.close()

    def _finish(self) -> None:
        for path, mode in sorted(self._folders.items(), reverse=True):
            if path:
                os.chmod(path, mode, dir_fd=self._root)
        self.done = True


def _is_path(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and len(path) <= PATH_CAP and not any(part in ("", ".", "..") for part in parts)
