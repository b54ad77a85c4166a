"""``fastness audit``: what is shown, in which words, on which terminal, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import house
from fastness.audit.log import AuditLog
from fastness.audit.record import KILLED
from fastness.broker.trail import Intent
from fastness.cli import exits
from fastness.cli.audit import moment
from fastness.cli.main import main
from fastness.errors import ConfigurationError
from fastness.runner.trail import open_trail, places

Capture = pytest.CaptureFixture[str]


def about(**fields: str) -> Intent:
    given = {"run": "r1", "plugin": "weather", "owner": "ann", "capability": "fs", "operation": "read", "target": "a"}
    return Intent(**{**given, **fields})  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(folder))
    return folder


@pytest.fixture
def trail(home: Path) -> AuditLog:
    """A trail of this home with a call, a refusal and a grant."""
    log = open_trail()
    log.done(log.intend(about(target="notes.txt")), about(target="notes.txt"), micros=12)
    log.refused(about(plugin="other", operation="write"), code="read_only")
    log.event(capability="plugin", op="grant", plugin="weather", owner="bob", target="revision 1")
    return log


def test_nothing_yet(home: Path, capsys: Capture) -> None:
    """Before anything was recorded each says so, exits with 0, and makes no files."""
    for command in ([], ["verify"], ["anchor"], ["prune", "--before", "1d"]):
        assert main(["audit", *command]) == exits.OK
    assert f"0:{'0' * 64}" in capsys.readouterr().out
    assert list(home.iterdir()) == []


def test_records_are_shown(trail: AuditLog, capsys: Capture) -> None:
    """One row for each, with what was done, for whom, and what came of it."""
    assert main(["audit"]) == exits.OK
    out = capsys.readouterr().out
    for word in (
        "weather / ann",
        "fs.read notes.txt",
        "of 1: done, 12 µs",
        "refused: read_only",
        "plugin.grant revision 1",
    ):
        assert word in out


def test_forged_fields_are_shown(trail: AuditLog, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many were dropped stands where it is said what came of the call, whether or not it was done."""
    monkeypatch.setenv("COLUMNS", "240")
    for code, micros in (("", 7), ("quota", 5), ("failed", 0)):
        trail.done(trail.intend(about()), about(), code=code, micros=micros, dropped=3)
    assert main(["audit"]) == exits.OK
    out = capsys.readouterr().out
    for words in ("of 5: done, 7 µs", "of 7: refused: quota", "of 9: failed"):
        assert f"{words}, forged fields dropped: 3" in out
    assert out.count("dropped") == 3
    assert main(["audit", "verify"]) == exits.OK


@pytest.mark.parametrize("columns", [80, 120])
def test_times_have_their_day_and_zone(
    columns: int, home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each day, above its records; and a name of a plugin with its owner stays on one line."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("COLUMNS", str(columns))
    time.tzset()
    try:
        log = open_trail()
        for at in (86_400.0 * 365, 86_400.0 * 365 + 60, 86_400.0 * 366):
            monkeypatch.setattr("fastness.audit.log.time.time", lambda at=at: at)
            log.event(capability="plugin", op="invoke", plugin="reading-list", owner="me", target="add")
        monkeypatch.undo()
        monkeypatch.setenv("FASTNESS_HOME", str(home))
        monkeypatch.setenv("TZ", "Asia/Kathmandu")
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["audit"]) == exits.OK
    finally:
        monkeypatch.undo()
        time.tzset()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "UTC" in line] == [
        "1971-01-01, times in UTC+05:30", "1971-01-02, times in UTC+05:30",
    ]  # fmt: skip
    assert [line.split()[1] for line in lines if "reading-list / me" in line] == ["05:30:00", "05:31:00", "05:30:00"]
    assert all(line.strip() for line in lines)


def test_addresses_are_not_broken_within_a_word(home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns a long one goes on behind one of its marks."""
    monkeypatch.setenv("COLUMNS", "80")
    words = ["GET https:", "service.weather.example", "forecasts", "northern-hemisphere", "tomorrow"]
    open_trail().refused(about(capability="net", operation="request", target="/".join(words)), code="host")
    assert main(["audit"]) == exits.OK
    out = capsys.readouterr().out
    assert [word for word in words[1:] if word not in out] == []
    assert out.index("refused:") < out.index("host", out.index("refused:"))


def test_what_nobody_recorded_is_said(trail: AuditLog, capsys: Capture) -> None:
    """A slip in a name is not taken for a plugin that did nothing."""
    assert main(["audit", "--plugin", "wether", "--owner", "ann"]) == exits.OK
    assert capsys.readouterr() == ("", "fastness: there is no record of plugin wether, owner ann\n")


def test_filters(trail: AuditLog, capsys: Capture) -> None:
    """By plugin and owner; as JSON, one object a line and nothing else."""

    def seqs(*options: str) -> list[int]:
        assert main(["audit", *options, "--json"]) == exits.OK
        captured = capsys.readouterr()
        assert captured.err == ""
        return [json.loads(line)["seq"] for line in captured.out.splitlines()]

    assert seqs() == [1, 2, 3, 4]
    assert seqs("--plugin", "weather") == [1, 2, 4]
    assert seqs("--plugin", "weather", "--owner", "ann") == [1, 2]
    assert seqs("--owner", "nobody") == []
    assert seqs("--since", "1h") == [1, 2, 3, 4]
    assert seqs("--since", "2999-01-01") == []
    assert seqs("-n", "2") == [3, 4]


def test_times() -> None:
    """Every form that is documented, and no other."""
    assert moment("0") == 0
    assert moment("12.5") == 12.5
    assert moment("1970-01-02T00:00:00+00:00") == 86_400
    assert moment("2h") < moment("30m") < moment("10s")
    for text in ("", "soon", "1.2.3", "2h30m", "-5", "nan", "9" * 30, "2026-13-01"):
        with pytest.raises(ConfigurationError):
            moment(text)


NASTY = "\x1b]0;title\x07\x1b[2J\u202egpj.exe\u2066\x9b31m\r\nfake row\x7f"


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_what_guests_name_is_made_visible_and_fits(
    columns: int, trail: AuditLog, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No control or bidi character reaches the terminal, no row is wider than it, and a name cannot begin a row."""
    trail.refused(
        about(plugin=NASTY[:40], owner=NASTY[:40], target=NASTY + "x" * 400, operation="\x1b[0m"), code=NASTY[:20]
    )
    trail.refused(about(target="漢" * 300), code="outside")
    from rich.console import Console

    monkeypatch.setattr("fastness.cli.audit.stdout_console", lambda: Console(markup=False, emoji=False, width=columns))
    assert main(["audit"]) == exits.OK
    out = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u2028\u2029]", out)
    from rich.cells import cell_len

    assert max(cell_len(line.rstrip()) for line in out.splitlines()) <= columns
    assert not any(line.lstrip().startswith("fake row") for line in out.splitlines())


def test_verify(trail: AuditLog, home: Path, capsys: Capture) -> None:
    """0 where all is well; 1, and the record by number, where one was edited; against an anchor, where the end was cut."""
    assert main(["audit", "anchor"]) == exits.OK
    head = capsys.readouterr().out.strip()
    assert main(["audit", "verify"]) == exits.OK
    captured = capsys.readouterr()
    assert captured.out == f"4 records; the head is {head}\n"
    assert "--head" in captured.err
    assert main(["audit", "verify", "--head", head]) == exits.OK
    assert capsys.readouterr().err == ""
    path, _ = places()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER no_removal")
        connection.execute("DELETE FROM trail WHERE seq=4")
        connection.execute(
            "CREATE TRIGGER no_removal BEFORE DELETE ON trail BEGIN SELECT RAISE(ABORT, 'a trail is appended to'); END"
        )
    connection.close()
    assert main(["audit", "verify"]) == exits.OK
    capsys.readouterr()
    assert main(["audit", "verify", "--head", head]) == exits.FAILED
    assert "cut: record 4 was cut off the end" in capsys.readouterr().out
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER no_change")
        connection.execute("UPDATE trail SET owner='x' WHERE seq=2")
    connection.close()
    assert main(["audit", "verify", "--json"]) == exits.FAILED
    told = json.loads(capsys.readouterr().out)
    assert told["whole"] is False
    assert {(damage["kind"], damage["first"]) for damage in told["damages"]} == {("schema", 0), ("edited", 2)}


def test_verify_wants_an_anchor_that_it_printed(trail: AuditLog, capsys: Capture) -> None:
    """Anything else is wrong usage."""
    assert main(["audit", "verify", "--head", "deadbeef"]) == exits.USAGE


def test_verify_without_the_key(trail: AuditLog, capsys: Capture) -> None:
    """The machinery failed; nothing is said about the trail."""
    Path(places()[1]).unlink()
    assert main(["audit", "verify"]) == exits.BROKEN
    assert "whole" not in capsys.readouterr().out


def test_anchor_as_json(trail: AuditLog, capsys: Capture) -> None:
    """Number and hash."""
    assert main(["audit", "anchor", "--json"]) == exits.OK
    assert json.loads(capsys.readouterr().out)["seq"] == 4


def test_prune(trail: AuditLog, capsys: Capture) -> None:
    """Old records go, and the trail verifies."""
    assert main(["audit", "prune", "--before", "2999-01-01"]) == exits.OK
    assert capsys.readouterr().out == "3 records removed\n"
    assert main(["audit", "verify"]) == exits.OK
    assert "after 3 that were pruned" in capsys.readouterr().out


def test_a_killed_host_is_shown(trail: AuditLog, capsys: Capture) -> None:
    """The row says what is known."""
    code = (
        "import os\nfrom fastness.runner.trail import open_trail\nfrom fastness.broker.trail import Intent\n"
        "open_trail().intend(Intent(run='r', plugin='p', owner='o', capability='c', operation='x', target='t'))\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(house.SOURCE)}, check=False)
    trail.close()
    trail.__init__(trail.path, trail.key)  # type: ignore[misc]
    trail.refused(about(), code="outside")
    assert main(["audit"]) == exits.OK
    # The column is narrow: the words stand below each other.
    out = capsys.readouterr().out
    assert [word for word in KILLED.split() if word not in out] == []


def test_follow(trail: AuditLog) -> None:
    """What is recorded later by another process is shown as it comes, after what is there."""
    command = [sys.executable, "-m", "fastness.cli", "audit", "--follow", "--json", "--plugin", "weather"]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(house.SOURCE)}, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["seq"] for _ in range(3)]
        trail.refused(about(plugin="other"), code="outside")
        trail.refused(about(), code="outside")
        seen.append(json.loads(process.stdout.readline())["seq"])
        assert seen == [1, 2, 4, 6]
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
