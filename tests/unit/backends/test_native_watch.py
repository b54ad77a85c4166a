"""Looks at the files of a guest whose folders are on the caller's disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fastness
from fastness.backends.native_watch import Watch
from fastness.runs import OutcomeKind


class _Box:
    """As much of a guest as is looked at."""

    def __init__(self, work: int) -> None:
        self.pid = os.getpid()
        self.work = work


def test_the_folder_is_the_one_that_the_guest_was_born_with(tmp_path: Path) -> None:
    """A link in its place leads nowhere: neither is what it leads to counted, nor does anything of that change."""
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own / "work", own / "tmp", other / "tmp" / "closed"):
        folder.mkdir(parents=True)
    (own / "tmp" / "small").write_bytes(b"x")
    (other / "tmp" / "large").write_bytes(bytes(1 << 20))
    (other / "tmp" / "closed").chmod(0)
    above, work = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (own, own / "work"))
    limits: Any = fastness.Limits(file_bytes=1 << 16, pids=1000)
    watch = Watch(_Box(work), limits, above, session=True)  # type: ignore[arg-type]  # as much of one as is needed
    try:
        assert watch() is None
        own.rename(tmp_path / "moved")
        own.symlink_to(other)
        watch._next = 0.0
        assert watch() is None
        assert (other / "tmp" / "closed").stat().st_mode & 0o777 == 0
        (tmp_path / "moved" / "tmp" / "large").write_bytes(bytes(1 << 20))
        watch._next = 0.0
        found = watch()
        assert found is not None
        assert found[0] is OutcomeKind.DISK
    finally:
        os.close(above)
        os.close(work)
