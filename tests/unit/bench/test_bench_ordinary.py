"""Measuring as an ordinary user: the environment that is made for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import house
from fastness.bench import ordinary


def test_the_environment_has_a_copy_of_everything_that_is_imported(tmp_path: Path) -> None:
    """Its interpreter finds the copy and nothing of this environment."""
    python = ordinary.make_environment(tmp_path / "environment", sys.executable)
    code = "import sys, fastness, msgspec, anyio\nprint(fastness.__file__, msgspec.__file__, anyio.__file__, sep='\\n')"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=False, cwd="/", env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(tmp_path)) for line in done.stdout.splitlines())


def test_a_path_below_a_closed_folder_is_not_for_everybody(tmp_path: Path) -> None:
    """Each folder above counts."""
    assert ordinary._may_enter("/bin/sh")
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    inside = closed / "program"
    inside.write_bytes(b"")
    inside.chmod(0o755)
    assert not ordinary._may_enter(str(inside))


def test_a_part_is_run_as_nobody() -> None:
    """A part that there is not is told by the process that looked for it, which imported all of the rest."""
    if os.geteuid():
        pytest.skip("only root can start a process of another user")
    if ordinary._interpreter() is None:
        house.lacks("no Python of this version that an ordinary user may start")
    (row,) = ordinary.rows("fastness.bench.native", "no_such_part", True)
    assert row.name == "no_such_part, ordinary user"
    assert "AttributeError" in row.note


def test_nothing_is_measured_where_nobody_may_start_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row says why."""
    monkeypatch.setattr(ordinary, "_may_enter", lambda path: False)
    (row,) = ordinary.rows("fastness.bench.native", "latency", True)
    assert "no Python" in row.note
