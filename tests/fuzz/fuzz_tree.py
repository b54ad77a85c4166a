"""A project's way into a guest and back: trees as somebody hostile may leave them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fuzzing

from fastness.errors import ApplyRefused, StagingError
from fastness.runner.apply import apply
from fastness.runner.collect import Collected, collect
from fastness.runner.entries import leads_inside
from fastness.runner.project import fill, snapshot
from fastness.runner.tree import plain_name

BYTES, FILES = 1 << 14, 48
SECRET = b"what lies outside"
#: A file outside that the project has by a second name, as its owner may.
SHARED = b"what the owner shares"
_NAMES = (b"a", b"b", b"c.txt", b"D", b"\xc3\xbc", b".git", b"package.json", b".env", b"hooks", b"\xff", b"new\nline", b"n" * 255, b"\xed\xa0\x80", b" ", b"...", b"Makefile")  # fmt: skip
_TARGETS = (b"a", b"b/c.txt", b"none", b"./D", b"..", b"../outside/secret", b"/etc/passwd", b"../../x", b"a/../..", b"\xff", b"loop", b".", b"D/../../outside", b"/proc/self/root")  # fmt: skip
_MODES = (0o644, 0o755, 0o600, 0o000, 0o4755, 0o2755, 0o1777, 0o444)


def path_in(source: fuzzing.Source, top: bytes) -> bytes:
    """A path below a folder that leads through real folders only, as a guest's own calls would be held to."""
    parts = [source.pick(_NAMES) for _ in range(1 + source.below(4))]
    here = top
    for part in parts[:-1]:
        deeper = os.path.join(here, part)
        if os.path.islink(deeper) or (os.path.lexists(deeper) and not os.path.isdir(deeper)):
            break
        if not os.path.lexists(deeper):
            os.mkdir(deeper)
        here = deeper
    return os.path.join(here, parts[-1])


def change(source: fuzzing.Source, top: bytes, outside: bytes) -> None:
    """One thing that is done to a tree."""
    kind, path = source.below(12), path_in(source, top)
    there = os.path.lexists(path)
    folder = there and os.path.isdir(path) and not os.path.islink(path)
    if there and not folder and os.lstat(path).st_nlink > 1 and kind not in (8, 10):
        # A guest cannot have a name of a file outside; what is done to the project must not reach it.
        return
    if kind == 11 and folder:
        shutil.rmtree(path)
    elif kind == 10 and there and not folder:
        os.unlink(path)
    elif kind == 9 and there and not os.path.islink(path):
        os.chmod(path, source.pick(_MODES))
    elif kind == 8 and there:
        other = path_in(source, top)
        if not os.path.lexists(other) and not other.startswith(path + b"/"):
            os.rename(path, other)
    elif kind in (3, 4) and not there:
        os.symlink(source.pick(_TARGETS), path)
    elif kind == 5 and not there:
        os.mkfifo(path)
    elif kind == 6 and not there:
        os.link(outside, path)
    elif kind == 7 and not folder and not os.path.islink(path) and (not there or os.path.isfile(path)):
        with open(path, "ab") as stream:
            # Sparse: nothing of it is there, and all of it counts.
            stream.truncate(source.pick((1, 5000, BYTES, BYTES + 1, 1 << 40)))
    elif kind == 2 and not there:
        os.mkdir(path)
    elif not folder and not os.path.islink(path) and (not there or os.path.isfile(path)):
        with open(path, "wb") as stream:
            stream.write(source.take(source.below(40)))


def picture(top: bytes) -> dict[bytes, Any]:
    """Everything below a folder, by path: kind and mode, and content or target."""
    found: dict[bytes, Any] = {}
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content: Any = os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
            if stat.S_ISREG(status.st_mode):
                content = _read(path) if status.st_size <= 2 * BYTES else status.st_size
            found[path[len(top) + 1 :]] = (status.st_mode, content)
    return found


def _read(path: bytes) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


class _Place:
    """Folders for one input after another."""

    def __init__(self) -> None:
        base = fuzzing.place("tree")
        self.home, self.outside, self.project, self.work = (
            base / name for name in ("home", "outside", "project", "work")
        )
        self.home.mkdir(mode=0o700)
        self.outside.mkdir()
        (self.outside / "secret").write_bytes(SECRET)
        (self.outside / "shared").write_bytes(SHARED)

    def clean(self) -> None:
        for folder in (self.project, self.work):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()


@contextmanager
def home(folder: Path) -> Iterator[None]:
    """Where journals lie, for the length of a block."""
    before = os.environ.get("FASTNESS_HOME")
    os.environ["FASTNESS_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["FASTNESS_HOME"]
        else:
            os.environ["FASTNESS_HOME"] = before


def plain(found: Collected, work: bytes) -> None:
    """What was collected is text, within its bounds, and what the kernel has under those very names."""
    changes = found.changes
    paths = {*found.files, *found.entries, *changes.added, *changes.changed, *changes.deleted}
    for path in paths:
        assert plain_name(path)
        assert not path.startswith("/")
        assert not {"", ".", ".."} & set(path.split("/"))
        path.encode()
    assert len(found.refused) <= 64
    for row in found.refused:
        row.path.encode()
        row.why.encode()
    assert found.total_bytes <= BYTES
    assert found.total_files <= FILES
    assert sum(file.size for file in found.files.values()) <= BYTES
    for path, file in found.files.items():
        real = os.path.join(work, path.encode())
        assert os.path.realpath(real) == real, "a link was followed"
        assert stat.S_ISREG(os.lstat(real).st_mode)
        assert file.read() == _read(real)
        assert file.read() != SECRET or path in found.outside_links, "something outside was taken"


def inside(project: Path, before: dict[bytes, Any]) -> None:
    """No link came into the project that leads out of it."""
    top = os.open(project, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path, (mode, target) in picture(os.fsencode(project)).items():
            if stat.S_ISLNK(mode) and before.get(path, (0, None))[1] != target:
                text = os.fsdecode(path)
                assert leads_inside(text, os.fsdecode(target)), f"{text!r} leads to {target!r}"
    finally:
        os.close(top)


def one(data: bytes) -> None:
    place = fuzzing.kept(_Place)
    place.clean()
    with home(place.home):
        there_and_back(place, fuzzing.Source(data))


def there_and_back(place: _Place, source: fuzzing.Source) -> None:
    """A project is made and copied, its copy is changed, and the changes are collected and applied."""
    work, project = os.fsencode(place.work), os.fsencode(place.project)
    secret, shared = (os.fsencode(place.outside / name) for name in ("secret", "shared"))
    opened = fuzzing.descriptors()
    for _ in range(source.below(12)):
        change(source, project, shared)
    try:
        taken = snapshot(place.project, max_bytes=BYTES, max_files=FILES)
        top = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fill(taken, top)
            while source:
                change(source, work, secret)
            with fuzzing.memory((4 << 20) + 8 * BYTES):
                found = collect(top, taken, max_bytes=BYTES, max_files=FILES)
        finally:
            os.close(top)
    except StagingError as error:
        str(error).encode()
        assert fuzzing.descriptors() == opened
        return
    plain(found, work)
    before = picture(project)
    try:
        apply(taken, found, place.project)
    except ApplyRefused as error:
        assert picture(project) == before, "something was refused, and done"
        for problem in error.problems:
            problem.encode()
    else:
        after, wanted = picture(project), picture(work)
        for path in (*found.changes.added, *found.changes.changed):
            assert after[path.encode()][1] == wanted[path.encode()][1]
        assert not {path.encode() for path in found.changes.deleted} & set(after)
        inside(place.project, before)
    assert picture(os.fsencode(place.outside)) == {
        os.path.basename(path): (stat.S_IFREG | stat.S_IMODE(os.stat(path).st_mode), content)
        for path, content in ((secret, SECRET), (shared, SHARED))
    }
    assert fuzzing.descriptors() == opened


def seeds() -> list[bytes]:
    """Each kind of change, in a project that has a file, a folder and a link."""
    begin = bytes((3, 0, 0, 0, 3, 120, 121, 122, 2, 0, 3, 3, 0, 5, 1))
    found = [begin, b"", b"\0"]
    for kind in range(12):
        for depth in range(3):
            found += [begin + bytes((kind, depth, 1, 2, 4, 5, 6)), begin + bytes((kind, 0, depth, 5, kind, 0, 0, 4))]
    return found + [begin + bytes((kind, 0, name, 3, 65, 66, 67)) for kind in (0, 3) for name in range(len(_NAMES))]


TARGET = fuzzing.Target(
    name="tree",
    says="whatever tree is left, what is taken is within its bounds and below its folder, and is applied whole or not",
    one=one,
    seeds=seeds,
    words=(b"\6\0\1", b"\3\0\2\5", b"\7\0\1\4", b"\5\0\2"),
    most=400,
)
