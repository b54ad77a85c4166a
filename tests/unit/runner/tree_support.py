"""A project, the copy that a guest has of it, and what a test does to both."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from fastness.runner.apply import apply
from fastness.runner.collect import Collected, collect
from fastness.runner.project import Project, fill, snapshot
from fastness.runs import Applied

BYTES = 1 << 20
FILES = 2_000


class Copy:
    """``real`` is the project, ``work`` what the guest sees of it."""

    def __init__(self, base: Path) -> None:
        self.real = base / "project"
        self.work = base / "work"
        self.real.mkdir()
        self.work.mkdir()
        self.project: Project | None = None

    def fill(self, include: Sequence[str] = (), **files: bytes) -> Project:
        """Copy the project in."""
        self.project = snapshot(self.real, max_bytes=BYTES, max_files=FILES, include=include)
        with opened(self.work) as descriptor:
            fill(self.project, descriptor, files=files)
        return self.project

    def collect(self, max_bytes: int = BYTES, max_files: int = FILES) -> Collected:
        """What the guest left."""
        assert self.project is not None
        with opened(self.work) as descriptor:
            return collect(descriptor, self.project, max_bytes=max_bytes, max_files=max_files)

    def apply(self, allow: Sequence[str] = ()) -> Applied:
        """Bring it into the project."""
        assert self.project is not None
        return apply(self.project, self.collect(), self.real, allow=allow)


class opened:
    """A folder's descriptor for the length of a block."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *exc: object) -> None:
        os.close(self._descriptor)


def picture(folder: Path, *, folders: bool = False) -> dict[str, object]:
    """Everything below a folder: files with mode and content, links with their target; folders where asked for."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            found[name] = (stat.S_IMODE(status.st_mode), path.read_bytes())
        elif folders:
            found[name] = "folder"
    return found


def write(path: Path, content: bytes = b"x", mode: int = 0o644) -> Path:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path
