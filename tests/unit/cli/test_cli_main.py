"""The entry point: quick where it can be, clear where something is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fastness.cli.main import main


def _child(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_version_needs_no_library() -> None:
    """`fastness --version` imports neither click nor rich nor anything that runs guests."""
    done = _child(
        "import sys; from fastness.cli.main import main; code = main(['--version'])\n"
        "heavy = {'click', 'rich', 'anyio', 'msgspec', 'wasmtime'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy or code else 0)"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("fastness ")


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_a_missing_library_is_named_with_the_fix(missing: str) -> None:
    """Without the cli extra the command says what to install."""
    done = _child(
        f"import sys; sys.modules[{missing!r}] = None\nfrom fastness.cli.main import main; sys.exit(main(['doctor']))"
    )
    assert done.returncode == 70
    assert missing in done.stderr
    assert "pip install" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        *([], ["run"], ["doctor"], ["attack"], ["bench"], ["guest"], ["audit"]),
        *(["guest", each] for each in ("list", "build")),
        *(["audit", each] for each in ("verify", "anchor", "prune")),
    ],
)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """--help works for each, and exits 0."""
    assert main([*command, "--help"]) == 0
    assert "Usage: fastness" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """When standard output is closed early nothing is complained about."""
    done = subprocess.run(
        f"{sys.executable} -m fastness.cli run --help | head -c 1",
        shell=True, executable="/bin/sh", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_explaining_an_unknown_tier_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    """The names that exist are in the message."""
    assert main(["explain", "bogus"]) == 2
    assert "wasm" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["local", "auto", "wasn"])
def test_explaining_what_is_no_tier(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what can be explained is named, and nothing is asked that was just typed."""
    assert main(["explain", name]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"fastness: tier is not accepted: '{name}'; allowed: mediated, worker, ")
    assert f"Did you mean '{name}'" not in err
    assert ", auto" not in err
    assert ("Did you mean 'wasm'" in err) == (name == "wasn")


@pytest.mark.parametrize("tier", ["vm"])
def test_explaining_a_tier_without_a_backend(tier: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A tier that this version does not have is explained all the same, and said to be unavailable."""
    assert main(["explain", tier]) == 0
    assert "unavailable" in capsys.readouterr().out


def test_explaining_a_tier_that_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The tier without isolation is there on every machine, and the first thing said of it is that it isolates nothing."""
    assert main(["explain", "mediated"]) == 0
    told = capsys.readouterr().out
    assert "promises no isolation" in told and "unavailable" not in told


_ENDS = """
import atexit, sys, threading, time
{before}
from fastness.cli import main
main.main = lambda: atexit.register(print, 'closed') and print('done') or 3
class Told:
    def __del__(self):
        print('taken apart')
told = Told()
thread = threading.Thread(target=lambda: time.sleep(0.2) or print('joined'))
thread.start()
main.command()
"""


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("", ["done", "joined", "closed"]),
        # Who was there first has its turn, and so has everything else.
        ("atexit.register(print, 'watched')", ["done", "joined", "closed", "watched", "taken apart"]),
    ],
)
def test_the_end_of_the_process_is_in_order(before: str, lines: list[str]) -> None:
    """Threads are waited for, what is to be closed is closed and streams are written; only then it ends at once."""
    done = _child(_ENDS.format(before=before))
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (3, lines, "")
