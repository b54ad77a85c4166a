"""The audit trail under fire: hosts that are killed, a database that is held, a disk that is full: no effect unrecorded."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import house
from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.audit.record import KILLED
from fastness.audit.verify import verify
from fastness.broker.trail import Intent
from fastness.errors import BackendError

ABOUT = Intent(run="r", plugin="p", owner="o", capability="fs", operation="write", target="t")

PRELUDE = """
import os, sys
from fastness.audit.log import AuditLog
from fastness.broker.trail import Intent
log = AuditLog(*sys.argv[1:3], patience_s=30)
about = Intent(run="r", plugin="p", owner="o", capability="fs", operation="write", target="t")
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    made = AuditLog(str(tmp_path / "audit.db"), str(tmp_path / "audit.key"), patience_s=0.2)
    yield made
    made.close()


def host(log: AuditLog, code: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, log.path, log.key, *arguments], env=environment, stdout=subprocess.PIPE
    )


def told(log: AuditLog) -> list[tuple[str, int, str]]:
    return [(row.phase, row.intent, row.code) for row in reading.records(log.path)]


def test_killed_between_intent_and_outcome(log: AuditLog, tmp_path: Path) -> None:
    """
    A host that is killed while it does what it announced: the intent is there, and the next start says what happened.

    Of two that were announced only the one without an outcome is closed.
    """
    code = "log.done(log.intend(about), about); log.intend(about); open(sys.argv[3], 'w').close(); print(flush=True)\nimport time; time.sleep(60)"
    effect = tmp_path / "effect"
    process = host(log, code, str(effect))
    assert process.stdout is not None
    process.stdout.readline()
    # While it lives it may still end what it began: another host that starts now closes nothing.
    other = AuditLog(log.path, log.key)
    other.refused(ABOUT, code="outside")
    assert KILLED not in [row[2] for row in told(log)]
    process.kill()
    process.wait()
    process.stdout.close()
    assert effect.exists()
    assert told(log) == [("intent", 0, ""), ("outcome", 1, ""), ("intent", 0, ""), ("intent", 0, "outside")]
    log.refused(ABOUT, code="outside")
    assert told(log)[4:] == [("outcome", 3, KILLED), ("intent", 0, "outside")]
    assert verify(log.path, log.key).whole
    # Closed once, whoever starts next.
    other.close()
    again = AuditLog(log.path, log.key)
    again.refused(ABOUT, code="outside")
    assert [row[2] for row in told(log)].count(KILLED) == 1
    again.close()


def test_what_returned_is_there_whenever_the_host_is_killed(log: AuditLog, tmp_path: Path) -> None:
    """A host tells the number of each record after it returned, and is killed at some moment: none is missing."""
    code = "while True:\n    n = log.intend(about); os.write(1, b'%d\\n' % n); log.done(n, about)"
    most = 0
    for round_ in range(8):
        process = host(log, code)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.03 * round_)
        process.kill()
        heard = [int(line) for line in process.stdout.read().split(b"\n")[:-1] if line]
        process.wait()
        process.stdout.close()
        intents = {row.seq for row in reading.records(log.path) if row.phase == "intent"}
        assert set(heard) <= intents
        assert verify(log.path, log.key).whole
        most = max(most, len(heard))
    assert most > 10
    log.refused(ABOUT, code="outside")
    closed = [row[1] for row in told(log) if row[0] == "outcome"]
    assert len(closed) == len(set(closed))
    assert set(closed) == {
        row.seq for row in reading.records(log.path) if row.phase == "intent" and row.decision == "allowed"
    }


def test_a_stopped_host_is_not_taken_for_a_dead_one(log: AuditLog) -> None:
    """A process that is stopped still owes its outcome, and gives it when it goes on."""
    process = host(
        log,
        "n = log.intend(about); print(flush=True); sys.stdin.readline() if 0 else os.kill(os.getpid(), 19); log.done(n, about); log.close()",
    )
    assert process.stdout is not None
    process.stdout.readline()
    log.refused(ABOUT, code="outside")
    assert KILLED not in [row[2] for row in told(log)]
    ends = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < ends:
        process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    assert process.wait(10) == 0
    process.stdout.close()
    assert ("outcome", 1, "") in told(log)


# what is on disk


def syncs(log: AuditLog, tmp_path: Path, code: str) -> list[str]:
    """The calls that write and sync, and the marks that the host makes between them, in their order."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace here to see system calls with")
    out = tmp_path / "calls"
    command = ["strace", "-f", "-o", str(out), "-e", "trace=pwrite64,fdatasync,fsync,write"]
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    command += [sys.executable, "-c", f"{PRELUDE}{code}", log.path, log.key]
    if subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL).returncode:
        pytest.skip("system calls cannot be seen here")
    found = []
    for line in out.read_text().splitlines():
        call = line.split(None, 1)[1].split("(")[0]
        found.append(line.split('"')[1] if call == "write" and '"mark' in line else call)
    return found


def test_what_leaves_is_on_disk_first(log: AuditLog, tmp_path: Path) -> None:
    """The intent of an effect that leaves is synced before it returns; of others only written (the control)."""
    code = (
        "log.done(log.intend(about), about); import msgspec\n"
        "leaves = msgspec.structs.replace(about, leaves=True)\n"
        "os.write(1, b'mark1'); n = log.intend(about); os.write(1, b'mark2'); log.done(n, about)\n"
        "os.write(1, b'mark3'); n = log.intend(leaves); os.write(1, b'mark4'); log.done(n, leaves)\n"
        "os.write(1, b'mark5')"
    )
    found = syncs(log, tmp_path, code)
    between = {n: found[found.index(f"mark{n}") + 1 : found.index(f"mark{n + 1}")] for n in (1, 2, 3, 4)}
    for number in (1, 2, 4):
        assert set(between[number]) == {"pwrite64"}, number
    assert between[3][0] == "pwrite64"
    assert between[3][-1] in ("fdatasync", "fsync")


# a database that another process holds


def act(log: AuditLog, effect: Path) -> None:
    """An effect as the broker makes it: after its intent."""
    number = log.intend(ABOUT)
    effect.write_text("done")
    log.done(number, ABOUT)


def test_a_held_database(log: AuditLog, tmp_path: Path) -> None:
    """While another holds it the effect is refused, and does not happen; the control shows that it does else."""
    log.refused(ABOUT, code="outside")
    holder = sqlite3.connect(log.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(BackendError) as caught:
        act(log, tmp_path / "effect")
    assert "another process holds it" in str(caught.value)
    assert not (tmp_path / "effect").exists()
    holder.execute("ROLLBACK")
    holder.close()
    act(log, tmp_path / "effect")
    assert (tmp_path / "effect").exists()
    assert told(log)[1:] == [("intent", 0, ""), ("outcome", 2, "")]


def test_an_outcome_that_cannot_be_written_comes_later(log: AuditLog) -> None:
    """Its caller is told, and it is written before the next record."""
    number = log.intend(ABOUT)
    holder = sqlite3.connect(log.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(BackendError):
        log.done(number, ABOUT, micros=5)
    holder.execute("ROLLBACK")
    holder.close()
    log.refused(ABOUT, code="outside")
    assert told(log) == [("intent", 0, ""), ("outcome", 1, ""), ("intent", 0, "outside")]
    assert verify(log.path, log.key).whole


# a full disk


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of a few pages."""
    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("mounting needs root")
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", str(folder)], check=False)
    if made.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(tmp_path: Path) -> None:
    """Once the disk is full effects are refused and do not happen; with room again the trail goes on, whole."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        log = AuditLog(str(disk / "audit.db"), str(tmp_path / "audit.key"))
        effect = tmp_path / "effect"
        act(log, effect)
        effect.unlink()
        ballast = disk / "ballast"
        with pytest.raises(OSError), ballast.open("wb", buffering=0) as stream:
            while True:
                stream.write(b"x" * 4096)
        refused = 0
        for _ in range(2000):
            before = len(list(reading.records(log.path)))
            try:
                act(log, effect)
            except BackendError:
                refused += 1
                assert not effect.exists() or len(list(reading.records(log.path))) > before
                if not effect.exists() and refused > 3:
                    break
            effect.unlink(missing_ok=True)
        assert refused > 3
        ballast.unlink()
        act(log, effect)
        assert effect.exists()
        assert verify(log.path, log.key).whole
        phases = [row.phase for row in reading.records(log.path)]
        assert phases.count("intent") == phases.count("outcome")
        log.close()


LIMITED = """
import resource
log.done(log.intend(about), about)
size = os.stat(log.path + "-wal").st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 6000, resource.RLIM_INFINITY))
from fastness.errors import BackendError
done = 0
for _ in range(50):
    try:
        n = log.intend(about)
        done += 1
        log.done(n, about)
    except BackendError:
        break
else:
    sys.exit("never refused")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.done(log.intend(about), about)
print(done)
"""


def test_a_file_that_may_not_grow(log: AuditLog) -> None:
    """The same by a limit on the size of files: the write that does not fit is an error and leaves no trace."""
    process = host(log, LIMITED)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert verify(log.path, log.key).whole
    log.refused(ABOUT, code="outside")
    records = list(reading.records(log.path))
    assert [row.seq for row in records] == list(range(1, len(records) + 1))
    intents = [row for row in records if row.phase == "intent" and row.decision == "allowed"]
    assert len(intents) >= int(output) + 2
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    """A file system that is read-only: refused."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        log = AuditLog(str(disk / "audit.db"), str(tmp_path / "audit.key"))
        with pytest.raises(BackendError):
            act(log, tmp_path / "effect")
        assert not (tmp_path / "effect").exists()
