"""Readers that go away, and devices that are full: what a command has still to do is done, and the exit code is its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import house

#: The command with a fake backend that changes what `exec` copies, in a process of its own.
_COMMAND = """
import sys
sys.path[:0] = [{tests!r}]
from test_cli_exec import CommandBackend
from fastness import sync
fake, real = CommandBackend(), sync.AsyncSandbox
fake.edit = lambda work: (work / 'b').write_text('b')
fake.report = {{'stdout': b'x' * 100_000}}
sync.AsyncSandbox = lambda **options: real(**options, _make=lambda tier: fake)
from fastness.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
Started = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def command(tmp_path: Path) -> Started:
    """Runs it with a standard output, or error, whose reader has gone already."""
    code = _COMMAND.format(tests=str(Path(__file__).parent))

    def run(*arguments: str, gone: str, place: str = "") -> subprocess.CompletedProcess[bytes]:
        if place:
            end = os.open(place, os.O_WRONLY)
        else:
            reader, end = os.pipe()
            os.close(reader)
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | dict.fromkeys(gone.split(), end)
        environment = {"PYTHONPATH": str(house.SOURCE), "PATH": os.defpath, "FASTNESS_HOME": str(tmp_path / "home")}
        try:
            return subprocess.run(
                [sys.executable, "-c", code, *arguments], env=environment, timeout=60, check=False, **streams
            )
        finally:
            os.close(end)

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    (folder / "a").write_text("a")
    return folder


@pytest.mark.parametrize(
    ("options", "gone"), [(["--json"], "stdout"), ([], "stdout"), ([], "stderr"), (["--json"], "stdout stderr")]
)
def test_changes_are_applied_without_a_reader(command: Started, project: Path, options: list[str], gone: str) -> None:
    done = command("exec", "--work", str(project), "--apply", *options, "--", "make", gone=gone)
    assert (project / "b").read_text() == "b"
    assert done.returncode == 0
    assert b"Traceback" not in (done.stderr or b"")


@pytest.mark.parametrize("arguments", [["run", "--json", "-c", "1"], ["run", "-c", "1"]])
def test_a_run_that_was_ok_is_ok_without_a_reader(command: Started, arguments: list[str]) -> None:
    done = command(*arguments, gone="stdout")
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_exit_code_is_the_commands_without_a_reader(command: Started) -> None:
    done = command("explain", "wasm", gone="stdout")
    assert (done.returncode, done.stderr) == (0, b"")
    done = command("explain", "no such tier", gone="stdout stderr")
    assert done.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
@pytest.mark.parametrize("arguments", [["run", "--json", "-c", "1"], ["explain", "wasm"], ["guest", "list", "--json"]])
def test_a_device_that_is_full_is_named(command: Started, arguments: list[str]) -> None:
    """Exit code 70, and no traceback."""
    done = command(*arguments, gone="stdout", place="/dev/full")
    assert done.returncode == 70
    assert done.stderr.startswith(b"fastness: the output cannot be written: No space left on device.")
    assert done.stderr.count(b"\n") == 1


def test_other_errors_are_bugs_of_ours(tmp_path: Path) -> None:
    """Exit code 70 with the traceback, as documented."""
    code = (
        "import sys, fastness.cli.explain as module\n"
        "def explain(tier): raise OSError(13, 'Permission denied')\n"
        "module.explain = explain\n"
        "from fastness.cli.main import main; sys.exit(main(['explain', 'wasm']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "this is a bug of Fastness" in done.stderr
    assert "Permission denied" in done.stderr


def test_the_result_is_whole_where_somebody_reads(command: Started, project: Path) -> None:
    done = command("exec", "--work", str(project), "--json", "--", "make", gone="")
    assert json.loads(done.stdout)["outcome"]["kind"] == "ok"
    assert not (project / "b").exists()
