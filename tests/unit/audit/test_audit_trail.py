"""The audit trail: committed before the call returns, one unbroken chain whoever writes, nothing where it cannot be."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import house
from fastness.audit import keys, reading
from fastness.audit.log import AuditLog, AuditLogClosed
from fastness.audit.record import FIELDS, GENESIS, AuditRecord, Sealer
from fastness.audit.verify import verify
from fastness.broker.trail import Intent, Trail
from fastness.errors import BackendError

Make = Callable[..., Intent]


def rows(log: AuditLog) -> list[AuditRecord]:
    return list(reading.records(log.path))


def test_it_is_what_a_broker_takes(log: AuditLog) -> None:
    """A trail has the methods that the broker calls."""
    trail: Trail = log
    assert trail is log


def test_an_intent_and_its_outcome(log: AuditLog, intent: Make) -> None:
    """Two records, bound to each other by number and to what came before by hash, with what is told and no more."""
    number = log.intend(intent(target="notes/a.txt"))
    log.done(number, intent(target="notes/a.txt"), code="", micros=12, bytes_in=3, bytes_out=4)
    first, second = rows(log)
    assert (first.seq, first.phase, first.decision, first.prev_hash) == (1, "intent", "allowed", GENESIS)
    assert (second.seq, second.phase, second.intent, second.prev_hash) == (2, "outcome", 1, first.hash)
    assert (second.micros, second.bytes_in, second.bytes_out, second.code) == (12, 3, 4, "")
    for record in (first, second):
        told = (record.run, record.plugin, record.owner, record.capability, record.op, record.target)
        assert told == ("run-1", "weather", "ann", "fs", "read", "notes/a.txt")
    assert verify(log.path, log.key).whole


def test_refusals_and_events_stand_for_themselves(log: AuditLog, intent: Make) -> None:
    """What was refused has no outcome, nor has what is done by being told."""
    log.refused(intent(), code="not_granted")
    record = log.event(capability="plugin", op="grant", plugin="weather", owner="ann", target="revision 3", sync=True)
    assert [(row.phase, row.decision, row.code) for row in rows(log)] == [
        ("intent", "refused", "not_granted"),
        ("event", "allowed", ""),
    ]
    assert rows(log)[1] == record


@pytest.mark.parametrize(
    ("code", "decision"),
    [
        ("", "allowed"),
        ("outside", "refused"),
        ("failed", "allowed"),
        ("revoked", "refused"),
        ("answer_revoked", "allowed"),
        ("answer_cancelled", "allowed"),
        ("late", "allowed"),
    ],
)
def test_an_adapter_that_refuses(code: str, decision: str, log: AuditLog, intent: Make) -> None:
    """What was refused before any effect is refused in the outcome; what failed, or was refused later, may have been done."""
    log.done(log.intend(intent()), intent(), code=code)
    assert (rows(log)[1].decision, rows(log)[1].code) == (decision, code)


def test_an_outcome_belongs_to_an_intent_that_waits(log: AuditLog, intent: Make) -> None:
    """None is written twice, and none for what was never announced."""
    number = log.intend(intent())
    log.done(number, intent())
    for wrong in (number, 77):
        with pytest.raises(BackendError):
            log.done(wrong, intent())
    assert len(rows(log)) == 2


def test_files_are_private(log: AuditLog, intent: Make) -> None:
    """Database, log and key are their owner's alone, and the key is not in the database."""
    log.intend(intent())
    secret = Path(log.key).read_text().strip()
    for path in Path(log.path).parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
        if path.is_file() and path != Path(log.key):
            data = path.read_bytes()
            assert secret.encode() not in data
            assert bytes.fromhex(secret) not in data


def test_it_is_appended_to(log: AuditLog, intent: Make) -> None:
    """A mistake of ours that changes or removes a record is refused by the database."""
    log.intend(intent())
    with sqlite3.connect(log.path) as connection:
        for statement in ("UPDATE trail SET target='x'", "DELETE FROM trail"):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)
    connection.close()


def test_texts_of_guests_are_kept_whole_or_cut(log: AuditLog, intent: Make) -> None:
    """NUL, control characters and lone surrogates do not break a record; a long text is cut."""
    for target in ("a\0b", "\x1b[2J\u202e", "\udcff\ud800", "x" * 100_000, "'; DROP TABLE trail; --"):
        log.intend(intent(target=target))
    found = [row.target for row in rows(log)]
    assert found[:3] == ["a\0b", "\x1b[2J\u202e", r"\udcff\ud800"]
    assert len(found[3]) == 500
    assert verify(log.path, log.key).whole


@given(
    st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30), st.integers(-5, 1 << 70), st.booleans()), max_size=8)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=house.examples(25))
def test_any_chain_verifies(tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, str, int, bool]]) -> None:
    """Whatever is recorded reads back in order and verifies."""
    folder = tmp_path_factory.mktemp("chain")
    log = AuditLog(str(folder / "audit.db"), str(folder / "audit.key"))
    for target, code, micros, ends in calls:
        about = Intent(run="r", plugin="p", owner="o", capability="c", operation="x", target=target)
        number = log.intend(about)
        if ends:
            log.done(number, about, code=code, micros=micros)
    found = rows(log)
    assert [row.seq for row in found] == list(range(1, len(found) + 1))
    if found:
        assert verify(log.path, log.key).whole
    log.close()


@given(
    st.binary(min_size=1, max_size=64),
    st.lists(st.one_of(st.text(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False))),
)
def test_seals_are_hmacs(key: bytes, values: list[object]) -> None:
    """A seal is HMAC-SHA256, as the standard library makes it, of all values but counts of nothing at their end."""
    import hmac

    import msgspec

    cost, dropped = FIELDS.index("cost"), FIELDS.index("dropped")
    told = list(values)
    if len(values) > dropped and values[dropped] == 0:
        del told[dropped]
        if values[cost] == 0:
            del told[cost]
    try:
        text = msgspec.json.encode(told)
    except UnicodeEncodeError:
        return
    assert Sealer(key).seal(tuple(values)) == hmac.new(key, text, "sha256").hexdigest()


def test_no_two_rows_have_one_seal() -> None:
    """Counts that are left out where they are nothing are not taken for each other."""
    seal = Sealer(b"k").seal
    rows = [(*[""] * FIELDS.index("cost"), cost, dropped, *[""] * 4) for cost in (0, 1) for dropped in (0, 1)]
    assert len({seal(row) for row in rows}) == 4


@pytest.mark.parametrize(("version", "missing"), [(1, ("cost", "dropped")), (2, ("dropped",))])
def test_a_trail_from_before_there_were_some_counts(
    tmp_path: Path, intent: Make, version: int, missing: tuple[str, ...]
) -> None:
    """Its records verify as they are, and new ones follow them, with and without a cost and dropped fields."""
    path, key = str(tmp_path / "audit.db"), str(tmp_path / "audit.key")
    old = AuditLog(path, key)
    old.done(old.intend(intent()), intent())
    old.close()
    connection = sqlite3.connect(path)
    for name in missing:
        connection.execute(f"ALTER TABLE trail DROP COLUMN {name}")
    connection.execute(f"PRAGMA user_version={version}")
    connection.close()
    log = AuditLog(path, key)
    log.done(log.intend(intent()), intent(), cost=1_234_567)
    log.done(log.intend(intent()), intent(), dropped=3)
    log.done(log.intend(intent()), intent())
    log.close()
    outcomes = [(row.cost, row.dropped) for row in rows(log) if row.phase == "outcome"]
    assert outcomes == [(0, 0), (1_234_567, 0), (0, 3), (0, 0)]
    assert verify(path, key).whole
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER no_change")
    # What was dropped is said to have been a cost.
    connection.execute("UPDATE trail SET cost = dropped, dropped = cost WHERE seq = 6")
    connection.commit()
    connection.close()
    assert not verify(path, key).whole


def test_threads_share_commits(log: AuditLog, intent: Make) -> None:
    """Writers at once do not break the chain or lose a record."""

    def work() -> None:
        for _ in range(20):
            log.done(log.intend(intent(leaves=True)), intent())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows(log)) == 320
    assert verify(log.path, log.key).whole
    intents = {row.seq for row in rows(log) if row.phase == "intent"}
    assert {row.intent for row in rows(log) if row.phase == "outcome"} == intents


APPEND = """
import sys
from fastness.audit.log import AuditLog
from fastness.broker.trail import Intent
log = AuditLog(*sys.argv[1:3], patience_s=30)
about = Intent(run="r", plugin="p", owner="o", capability="c", operation="x", target="t")
for _ in range(100):
    log.done(log.intend(about), about)
log.close()
"""


def test_processes_take_turns(log: AuditLog) -> None:
    """Several processes append at once, to a trail whose database and key do not exist yet: one chain, one key."""
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    writers = [subprocess.Popen([sys.executable, "-c", APPEND, log.path, log.key], env=environment) for _ in range(3)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    assert len(rows(log)) == 600
    assert verify(log.path, log.key).whole
    assert not os.listdir(Path(log.path).parent / "audit-writers")


def test_a_forked_child_writes_as_itself(log: AuditLog, intent: Make) -> None:
    """A child neither uses its parent's connection nor answers for its intents."""
    number = log.intend(intent(target="parent"))
    child = multiprocessing.get_context("fork").Process(
        target=lambda: log.done(log.intend(intent(target="child")), intent(target="child"))
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    log.done(number, intent(target="parent"))
    assert [(row.target, row.phase) for row in rows(log)] == [
        ("parent", "intent"),
        ("child", "intent"),
        ("child", "outcome"),
        ("parent", "outcome"),
    ]
    assert len({row.writer for row in rows(log)}) == 2
    assert verify(log.path, log.key).whole


def test_a_closed_trail_records_nothing(log: AuditLog, intent: Make) -> None:
    """After close no intent is taken, so nothing may happen."""
    log.intend(intent())
    log.close()
    log.close()
    with pytest.raises(AuditLogClosed):
        log.intend(intent())
    assert len(rows(log)) == 1


def test_a_trail_whose_file_was_removed_begins_anew(log: AuditLog, intent: Make) -> None:
    """Records do not go to a file that has no name any more."""
    number = log.intend(intent(target="old"))
    for path in Path(log.path).parent.glob("audit.db*"):
        path.unlink()
    log.intend(intent(target="new"))
    assert [(row.seq, row.target) for row in rows(log)] == [(1, "new")]
    with pytest.raises(BackendError):
        log.done(number, intent(target="old"))


# the key


@pytest.mark.parametrize("what", ["open to others", "short", "not hexadecimal", "folder", "link", "two lines"])
def test_a_key_that_cannot_be_trusted(what: str, log: AuditLog, intent: Make, tmp_path: Path) -> None:
    """It is refused, nothing is recorded, and the key is left as it was."""
    path = Path(log.key)
    good = "ab" * 32 + "\n"
    if what == "folder":
        path.mkdir()
    elif what == "link":
        (tmp_path / "elsewhere").write_text(good)
        (tmp_path / "elsewhere").chmod(0o600)
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_text({"short": "ab\n", "not hexadecimal": "zz" * 32 + "\n", "two lines": good * 2}.get(what, good))
        path.chmod(0o644 if what == "open to others" else 0o600)
    with pytest.raises(BackendError) as caught:
        log.intend(intent())
    assert str(path) in str(caught.value)
    assert rows(log) == []


def test_a_key_that_is_whole_is_taken(log: AuditLog, intent: Make) -> None:
    """The control: the same file with mode 0600."""
    Path(log.key).write_text("ab" * 32 + "\n")
    Path(log.key).chmod(0o600)
    log.intend(intent())
    assert keys.load(log.key) == bytes.fromhex("ab" * 32)
    assert verify(log.path, log.key).whole


def test_a_key_that_is_gone(log: AuditLog, intent: Make) -> None:
    """No second key is made for a trail that has records: they could never be verified again."""
    log.intend(intent())
    log.close()
    Path(log.key).unlink()
    other = AuditLog(log.path, log.key)
    with pytest.raises(BackendError) as caught:
        other.intend(intent())
    assert "key" in str(caught.value)
    assert not Path(log.key).exists()
    other.close()


def test_another_key(log: AuditLog, intent: Make) -> None:
    """Nothing is added that would not fit what is there."""
    log.intend(intent())
    log.close()
    Path(log.key).write_text("cd" * 32 + "\n")
    other = AuditLog(log.path, log.key)
    with pytest.raises(BackendError):
        other.intend(intent())
    assert len(rows(log)) == 1
    other.close()


# the place


@pytest.mark.parametrize(
    "make", ["folder", "link", "missing folder", "open to others", "no database", "another's database"]
)
def test_where_it_cannot_be_written(make: str, log: AuditLog, intent: Make, tmp_path: Path) -> None:
    """An error, and nothing is written elsewhere."""
    path = Path(log.path)
    if make == "folder":
        path.mkdir()
    elif make == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif make == "missing folder":
        log.__init__(str(tmp_path / "no" / "audit.db"), log.key)  # type: ignore[misc]
    elif make == "open to others":
        path.write_bytes(b"")
        path.chmod(0o666)
    elif make == "no database":
        path.write_bytes(b"x" * 5000)
        path.chmod(0o600)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE mine (a)")
        connection.close()
        path.chmod(0o600)
    with pytest.raises(BackendError):
        log.intend(intent())
    assert not (tmp_path / "elsewhere").exists()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_what_has_happened_is_kept(log: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    """An event that cannot be written while somebody holds the database is written before the next record."""
    log.event(op="install", plugin="weather")
    other = sqlite3.connect(log.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BackendError, match="another process holds it"):
        log.event(op="revoke", plugin="weather", keep=True)
    with pytest.raises(BackendError, match="another process holds it"):
        log.event(op="grant", plugin="weather")
    other.execute("ROLLBACK")
    log.event(op="invoke", plugin="weather")
    assert [row.op for row in reading.records(log.path)] == ["install", "revoke", "invoke"]
    assert verify(log.path, log.key).whole
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BackendError):
        log.event(op="disable", plugin="weather", keep=True)
    other.execute("ROLLBACK")
    # Whoever has nothing else to record writes it when it ends.
    log.close()
    assert [row.op for row in reading.records(log.path)][-1] == "disable"
    assert not caplog.records
    other.close()


def test_what_is_lost_is_told(log: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    """Held until the end: nothing can be done, and it is not left unsaid."""
    log.event(op="install", plugin="weather")
    with contextlib.closing(sqlite3.connect(log.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BackendError):
            log.event(op="revoke", plugin="weather", keep=True)
        log.close()
    assert "1 records of what was done could not be written" in caplog.text
