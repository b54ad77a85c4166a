"""A folder that turns into a link and back as fast as it can: nothing outside is read into a copy, or written to."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import house
from fastness._linux import beneath
from fastness.errors import ApplyRefused, BackendError, StagingError
from fastness.runner.apply import apply, recover
from fastness.runner.collect import Collected, collect
from fastness.runner.filling import fill
from fastness.runner.project import Project, snapshot

pytestmark = pytest.mark.slow

SECONDS = 2.0
SECRET = b"from outside"


@pytest.fixture(params=["openat2", "no openat2"])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "openat2" and not beneath.has_openat2():
        house.lacks("this kernel has no openat2")
    if request.param != "openat2":
        monkeypatch.setattr(beneath, "_works", False)


class Arena:
    """``top/dir`` is by turns a folder and a link to ``outside``; both hold ``name``."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.top = base / "top"
        self.outside = base / "outside"
        for folder, content in ((self.top / "dir", b"inside"), (self.outside, SECRET)):
            folder.mkdir(parents=True)
            (folder / "name").write_bytes(content)
        self._other = base / "other"
        self._other.symlink_to(self.outside)

    def _swap(self, stop: threading.Event) -> None:
        top, base = os.open(self.top, os.O_RDONLY), os.open(self.base, os.O_RDONLY)
        while not stop.is_set():
            beneath.rename(top, "dir", base, "other", beneath.RENAME_EXCHANGE)
        os.close(top)
        os.close(base)

    @contextlib.contextmanager
    def swapping(self, seconds: float = SECONDS) -> Iterator[Iterator[int]]:
        """A loop of two seconds, or as many as are asked for, while the folder swaps."""
        stop = threading.Event()
        swapper = threading.Thread(target=self._swap, args=(stop,))

        def rounds() -> Iterator[int]:
            ends = time.monotonic() + seconds
            count = 0
            while time.monotonic() < ends:
                yield count
                count += 1

        swapper.start()
        try:
            yield rounds()
        finally:
            stop.set()
            swapper.join()

    def settle(self) -> None:
        """Have the folder, and the link, where they began."""
        if (self.top / "dir").is_symlink():
            (self.top / "dir").rename(self.base / "link")
            self._other.rename(self.top / "dir")
            (self.base / "link").rename(self._other)


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    return Arena(tmp_path)


def contents(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_looking_first_is_not_enough(arena: Arena) -> None:
    """The control: a copy that looks at each path before it opens it reads what lies outside."""
    read: set[bytes] = set()
    with arena.swapping() as rounds:
        for _ in rounds:
            with contextlib.suppress(OSError):
                if not (arena.top / "dir").is_symlink():
                    read.add((arena.top / "dir/name").read_bytes())
            if SECRET in read:
                break
    assert SECRET in read


@pytest.mark.usefixtures("walk")
def test_a_copy_holds_nothing_from_outside(arena: Arena) -> None:
    """Neither looking nor copying is led out; what cannot be had is listed or refused."""
    copied = 0
    with arena.swapping() as rounds:
        for _ in rounds:
            into = arena.base / "into"
            into.mkdir()
            descriptor = os.open(into, os.O_RDONLY)
            try:
                project = snapshot(arena.top, max_bytes=1 << 20, max_files=100)
                fill(project, descriptor)
            except StagingError:
                pass
            finally:
                os.close(descriptor)
            found = contents(into)
            assert SECRET not in found
            copied += b"inside" in found
            shutil.rmtree(into)
    assert copied


@pytest.mark.usefixtures("walk")
def test_nothing_from_outside_is_collected(arena: Arena) -> None:
    """A guest that still runs while its folder is read gains nothing by it."""
    taken = 0
    descriptor = os.open(arena.top, os.O_RDONLY)
    with arena.swapping() as rounds:
        for _ in rounds:
            found = collect(descriptor, {}, max_bytes=1 << 20, max_files=100)
            assert all(file.read() != SECRET for file in found.files.values())
            taken += bool(found.files)
    os.close(descriptor)
    assert taken


@pytest.mark.usefixtures("walk")
def test_rights_of_what_lies_outside_stay(arena: Arena) -> None:
    """Opening what a guest has closed changes the mode of nothing but the guest's own."""
    arena.outside.chmod(0)
    (arena.top / "dir").chmod(0)
    descriptor = os.open(arena.top, os.O_RDONLY)
    with arena.swapping() as rounds:
        for _ in rounds:
            collect(descriptor, {}, max_bytes=1 << 20, max_files=100)
            assert arena.outside.stat().st_mode & 0o777 == 0
    os.close(descriptor)
    arena.outside.chmod(0o700)


@pytest.mark.usefixtures("walk")
def test_nothing_outside_is_written(arena: Arena) -> None:
    """Applying into a folder that becomes a link is refused, or goes into the folder, whole."""
    ends: Counter[str] = Counter()
    over = time.monotonic() + SECONDS
    while time.monotonic() < over:
        project, found = _changed(arena)
        applied = False
        with arena.swapping(over - time.monotonic()) as rounds:
            for _ in rounds:
                ended = _attempt(lambda project=project, found=found: apply(project, found, arena.top))
                ends[ended] += 1
                assert sorted(path.name for path in arena.outside.iterdir()) == ["name"]
                assert (arena.outside / "name").read_bytes() == SECRET
                if applied := ended == "applied":
                    break
        arena.settle()
        assert not recover(arena.top)
        left = {path.name: path.read_bytes() for path in (arena.top / "dir").iterdir()}
        assert left == ({"name": b"guest", "new": b"guest"} if applied else {"name": b"inside"})
    # Some came through and some did not, or the folder was not swapped under any of them.
    assert ends.total() > 3, ends
    assert ends["refused"] + ends["failed"], ends


def _changed(arena: Arena) -> tuple[Project, Collected]:
    """The project as it began, and a change of a file and a new one to it."""
    shutil.rmtree(arena.top / "dir")
    (arena.top / "dir").mkdir()
    (arena.top / "dir/name").write_bytes(b"inside")
    work = arena.base / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    descriptor = os.open(work, os.O_RDONLY)
    try:
        project = snapshot(arena.top, max_bytes=1 << 20, max_files=100)
        fill(project, descriptor)
        (work / "dir/name").write_bytes(b"guest")
        (work / "dir/new").write_bytes(b"guest")
        return project, collect(descriptor, project, max_bytes=1 << 20, max_files=100)
    finally:
        os.close(descriptor)


def _attempt(function: Callable[[], object]) -> str:
    try:
        function()
    except ApplyRefused:
        return "refused"
    except BackendError:
        return "failed"
    return "applied"
