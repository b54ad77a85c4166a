"""The audit trail: on disk before the call returns, one unbroken chain whoever writes, and every change shows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.audit.log import FileLog
from fastness.audit.record import GENESIS, AuditRecord, intact, seal
from fastness.errors import BackendError

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    """An empty trail."""
    return FileLog(tmp_path / "audit.jsonl")


def test_a_chain(log: FileLog) -> None:
    """Records are numbered from 1, each bound to the one before, and read back as they were written."""
    written = [log.append(op=f"op{number}", target="t") for number in range(5)]
    assert list(log.records()) == written
    assert [record.seq for record in written] == [1, 2, 3, 4, 5]
    assert written[0].prev_hash == GENESIS
    for before, after in zip(written, written[1:], strict=False):
        assert after.prev_hash == before.hash
    assert log.verify() is None
    assert FileLog(log.path).append(op="later").seq == 6


def test_it_is_private(log: FileLog) -> None:
    """Only its owner can read it."""
    log.append(op="x")
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_nothing_yet(log: FileLog) -> None:
    """A trail without records is whole."""
    assert list(log.records()) == []
    assert log.verify() is None


_CHANGES: dict[str, Any] = {
    "a removed line": lambda lines: [lines[0], *lines[2:]],
    "two lines that changed places": lambda lines: [lines[1], lines[0], *lines[2:]],
    "a changed word": lambda lines: [lines[0], lines[1].replace(b"op1", b"op9"), *lines[2:]],
    "a changed time": lambda lines: [lines[0], lines[1].replace(b'"at":', b'"at":1'), *lines[2:]],
    "a doubled line": lambda lines: [lines[0], lines[0], *lines[1:]],
    "a line that is no JSON": lambda lines: [lines[0], b"{", *lines[1:]],
    "an unknown field": lambda lines: [lines[0], lines[1].replace(b"{", b'{"new":1,', 1), *lines[2:]],
    "a removed first line": lambda lines: lines[1:],
}


@pytest.mark.parametrize("what", list(_CHANGES))
def test_changes_show(what: str, log: FileLog) -> None:
    """Each change is found, at the first line that does not fit."""
    for number in range(4):
        log.append(op=f"op{number}", target="t")
    lines = log.path.read_bytes().splitlines()
    log.path.write_bytes(b"\n".join(_CHANGES[what](lines)) + b"\n")
    assert log.verify() in (1, 2)


def test_the_end_cut_off_is_the_one_thing_that_does_not_show(log: FileLog) -> None:
    """A chain proves nothing about what came after its last record; the last hash must be kept elsewhere for that."""
    for number in range(3):
        log.append(op=f"op{number}")
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join(lines[:2]))
    assert log.verify() is None
    assert log.append(op="next").seq == 3


def test_half_a_line_at_the_end(log: FileLog) -> None:
    """After a crash in mid-write nothing is added to a damaged trail: its owner is told."""
    log.append(op="a")
    log.append(op="b")
    data = log.path.read_bytes()
    log.path.write_bytes(data[:-20])
    with pytest.raises(BackendError) as caught:
        log.append(op="c")
    assert str(log.path) in str(caught.value)
    assert log.verify() == 2


@pytest.mark.parametrize("make", ["folder", "link", "missing folder"])
def test_where_it_cannot_be_written(make: str, tmp_path: Path) -> None:
    """A folder in its place, a link to somewhere else, no folder: an error, and nothing is written elsewhere."""
    path = tmp_path / "audit.jsonl"
    target = tmp_path / "elsewhere"
    if make == "folder":
        path.mkdir()
    elif make == "link":
        path.symlink_to(target)
    else:
        path = tmp_path / "no" / "audit.jsonl"
    with pytest.raises(BackendError):
        FileLog(path).append(op="x")
    assert not target.exists()


def test_a_full_disk() -> None:
    """A record that does not fit is an error."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(BackendError):
        FileLog("/dev/full").append(op="x")


def test_threads_take_turns(log: FileLog) -> None:
    """Writers at once do not break the chain or lose a record."""
    threads = [threading.Thread(target=lambda: [log.append(op="x") for _ in range(20)]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.seq for record in log.records()] == list(range(1, 101))
    assert log.verify() is None


def test_processes_take_turns(log: FileLog) -> None:
    """So do writers of several processes."""
    code = "import sys; from fastness.audit.log import FileLog\nfor _ in range(20): FileLog(sys.argv[1]).append(op='x')"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    writers = [subprocess.Popen([sys.executable, "-c", code, str(log.path)], env=environment) for _ in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(list(log.records())) == 60
    assert log.verify() is None


@given(
    st.fixed_dictionaries(
        {
            "op": st.text(max_size=20),
            "target": st.text(max_size=40),
            "owner": st.text(max_size=10),
            "micros": st.integers(0, 1 << 40),
        }
    )
)
def test_sealing(fields: dict[str, Any]) -> None:
    """A sealed record is intact after a way through JSON, and not after a change of any field."""
    record = seal(AuditRecord(seq=3, at=1.5, prev_hash="a" * 64, **fields))
    again = msgspec.json.decode(msgspec.json.encode(record), type=AuditRecord)
    assert again == record
    assert intact(again, "a" * 64)
    assert not intact(again, "b" * 64)
    for change in ({"seq": 4}, {"at": 1.25}, {"micros": fields["micros"] + 1}, {"op": fields["op"] + "x"}):
        assert not intact(msgspec.structs.replace(again, **change), "a" * 64)


def test_a_long_record(log: FileLog) -> None:
    """A record longer than what is read back of the file's end does not break the chain silently."""
    log.append(op="x", target="t" * 70_000)
    try:
        log.append(op="y")
    except BackendError:
        return
    assert log.verify() is None
