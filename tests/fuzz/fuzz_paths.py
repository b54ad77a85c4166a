"""The path resolver of ``fs``: the texts that guests name, and where they lead among links that lead out."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fuzzing

from fastness._linux import beneath
from fastness.capabilities import _files
from fastness.capabilities._paths import LONGEST, addressable, parts_of, shown
from fastness.capabilities._threads import Stop
from fastness.errors import AdapterError, Denied

SECRET = b"what lies outside"
_MOST = 1 << 16


class _World:
    """A root with links out of it, and what lies outside; made again once it was changed."""

    def __init__(self) -> None:
        self.base = fuzzing.place("paths")
        self.root = self.base / "root"
        self.outside = self.base / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_bytes(SECRET)
        (self.outside / "folder").mkdir()
        self.before = self.picture(self.outside)
        self.fresh = ""
        self.make()

    def make(self) -> None:
        now = self.picture(self.root) if self.root.exists() else ""
        if now and now == self.fresh:
            return
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        (self.root / "a/b").mkdir(parents=True)
        (self.root / "a/file").write_bytes(b"inside")
        (self.root / "a/b/file").write_bytes(b"deep inside")
        os.link(self.root / "a/file", self.root / "twice")
        links = {"out": self.outside, "up": "..", "a/up": "../..", "a/b/loop": "loop", "near": "a", "a/here": ".", "etc": "/etc",
                 "secret": self.outside / "secret", "a/secret": "../../outside/secret", "self": "/proc/self/root", "gone": "nothing"}  # fmt: skip
        for name, target in links.items():
            (self.root / name).symlink_to(target)
        os.mkfifo(self.root / "a/pipe")
        self.fresh = self.picture(self.root)

    @staticmethod
    def picture(top: Path) -> str:
        """Names, kinds, targets and contents below a folder; no times, as reading changes those."""
        found = []
        for folder, folders, files in os.walk(top):
            for name in sorted((*folders, *files)):
                path = os.path.join(folder, name)
                content: Any = os.readlink(path) if os.path.islink(path) else ""
                if os.path.isfile(path) and not os.path.islink(path):
                    content = Path(path).read_bytes()
                found.append((path, os.lstat(path).st_mode, content))
        return repr(sorted(found, key=repr))


def world() -> _World:
    return fuzzing.kept(_World)


@contextmanager
def walking(kernel: bool) -> Iterator[None]:
    """With the kernel's own walk, or name by name."""
    before = beneath._works
    beneath._works = beneath.has_openat2() and kernel
    try:
        yield
    finally:
        beneath._works = before


def words(path: str) -> tuple[str, ...] | None:
    """The names of a path, or None where it is refused; with all that is promised of them."""
    try:
        parts = parts_of(path)
    except Denied as error:
        assert len(error.target) <= 200
        return None
    assert len(path) <= LONGEST
    for part in parts:
        assert addressable(part)
        assert part not in ("", ".", "..")
        assert not set(part) & {"/", "\\", "\0", "\n"}
        part.encode()
    joined = os.path.normpath(os.path.join("/root", *parts))
    assert joined == "/root" + "".join(f"/{part}" for part in parts)
    assert parts_of("/".join(parts)) == parts
    return parts


def act(kind: int, root: str, parts: tuple[str, ...], path: str) -> object:
    """One operation of the adapter, or what it was refused for.  Raises nothing else."""
    stop = Stop()
    try:
        if kind == 0:
            return _files.names(root, parts, path, 100)
        if kind == 1:
            found = _files.describe(root, parts, path)
            return found and (found["kind"], found["size"])
        if not parts:
            return "the root"
        if kind == 2:
            return _files.read(root, parts, path, 0, None, _MOST, stop)
        if kind == 3:
            return _files.write(root, parts, path, b"written", set(), stop)
        if kind == 4:
            return _files.delete(root, parts, path)
        return _files.make_folder(root, parts, path)
    except (Denied, AdapterError) as error:
        assert str(world().base) not in str(error)
        return f"{type(error).__name__}: {error}"


def resolve(kind: int, path: str) -> None:
    """Nothing outside is read or changed; both ways to walk say the same."""
    parts = words(path)
    if parts is None:
        return
    here = world()
    told = []
    for kernel in (True, False):
        here.make()
        opened = fuzzing.descriptors()
        with walking(kernel), fuzzing.memory(2 << 20):
            told.append(act(kind, str(here.root), parts, shown(path)))
        assert fuzzing.descriptors() == opened
        assert here.picture(here.outside) == here.before, "something outside was changed"
        assert SECRET not in repr(told[-1]).encode(), "something outside was read"
        target = here.root.joinpath(*parts)
        # An answer that is no refusal is about something whose real place is below the root.
        if not isinstance(told[-1], str) and os.path.lexists(target):
            assert os.path.realpath(target) == str(target), "a link was followed"
    assert told[0] == told[1], told
    if kind == 0 and isinstance(told[0], dict):
        for entry in told[0]["entries"]:
            assert parts_of("/".join((*parts, entry["name"]))) == (*parts, entry["name"])


def children(name: str) -> None:
    """Below the checks of texts: one name opens one entry, and only ``OSError`` says why not."""
    here = world()
    here.make()
    top = os.open(here.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        told = []
        for kernel in (True, False):
            for opening in (beneath.open_child, beneath.open_entry):
                for flags in (os.O_RDONLY | os.O_DIRECTORY, os.O_RDONLY | os.O_NONBLOCK):
                    with walking(kernel):
                        told.append((flags, _opened(opening, top, name, flags)))
        assert len(set(told)) == 2, told
    finally:
        os.close(top)


def _opened(opening: Any, top: int, name: str, flags: int) -> str:
    try:
        found = opening(top, name, flags)
    except OSError as error:
        code = errno.errorcode[error.errno or 0]
        # A link that is asked to be a folder is either: the kernel's walk looks at the link, the other at the folder.
        return "no folder" if code in ("ELOOP", "ENOTDIR") else code
    try:
        assert name not in (".", "..") and "/" not in name
        assert os.path.samestat(os.fstat(found), os.lstat(os.path.join(world().root, name)))
    finally:
        os.close(found)
    return "opened"


def links(path: str) -> None:
    """What is said to stay inside does, by the library's own resolver; the kernel's word and the other agree on it."""
    if not path or "\0" in path or len(path) > LONGEST:
        return
    try:
        path.encode()
    except UnicodeEncodeError:
        return
    here = world()
    here.make()
    top = os.open(here.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for kernel in (True, False):
            with walking(kernel):
                inside = beneath.stays_inside(top, path)
            target = os.path.join(here.root, path)
            if inside and os.path.exists(target):
                real = os.path.realpath(target)
                assert f"{real}/".startswith(f"{here.root}/"), f"{path!r} leads to {real!r}"
    finally:
        os.close(top)


def one(data: bytes) -> None:
    source = fuzzing.Source(data)
    kind = source.below(9)
    if kind == 6:
        words(fuzzing.text_of(source.rest()))
    elif kind == 7:
        children(fuzzing.text_of(source.rest()))
    elif kind == 8:
        links(fuzzing.text_of(source.rest()))
    else:
        resolve(kind, fuzzing.text_of(source.rest()))


_PIECES = ("..", "/", "\\", "%2e", "%252F", "．", "／", "\0", "a", "a/b/file", "out/secret", "up/outside/secret", "a/up/outside/secret", "near/file",
           "a/here/b", "self/etc", "etc/passwd", "secret", "twice", "a/pipe", "gone", ".fastness-x", "C:/", " ", "\ud800", "\x85", "é")  # fmt: skip


def seeds() -> list[bytes]:
    pieces = [piece.encode("utf-8", "surrogatepass") for piece in _PIECES]
    found = [bytes((kind,)) + piece for kind in range(9) for piece in pieces]
    found += [b"\1" + b"a/" * 70, b"\1" + b"n" * 256, b"\6" + b"x" * 1025]
    return [*found, b"\0", b"\5new", b"\3a/new", b"\4a/b/file"]


TARGET = fuzzing.Target(
    name="paths",
    says="any text is refused or names something below the root, whatever links are there, with openat2 and without",
    one=one,
    seeds=seeds,
    words=tuple(piece.encode("utf-8", "surrogatepass") for piece in _PIECES),
    most=1100,
)
