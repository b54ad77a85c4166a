"""What verifying finds, and names: every edit, removal and move; and what shows only against an anchor."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import house
from fastness.audit import keys, reading, schema
from fastness.audit.log import AuditLog
from fastness.audit.record import FIELDS, GENESIS, AuditRecord, Sealer
from fastness.audit.verify import Anchor, Damage, Kind, anchor, examine, verify
from fastness.broker.trail import Intent
from fastness.errors import BackendError, ConfigurationError

Make = Callable[..., Intent]
Tamper = Callable[..., None]
KEY = b"k" * 32


@pytest.fixture
def ten(log: AuditLog, intent: Make) -> AuditLog:
    """A trail of ten records."""
    for number in range(5):
        log.done(log.intend(intent(target=f"t{number}")), intent(target=f"t{number}"), micros=number)
    return log


def found(log: AuditLog, head: Anchor | None = None) -> list[tuple[Kind, int, int]]:
    verdict = verify(log.path, log.key, head)
    return [(damage.kind, damage.first, damage.last) for damage in verdict.damages]


def test_a_whole_trail(ten: AuditLog) -> None:
    """Nothing is found, with an anchor and without, and the anchor is the head."""
    head = anchor(ten.path)
    assert head.seq == 10
    verdict = verify(ten.path, ten.key, head)
    assert (verdict.whole, verdict.records, verdict.first, verdict.head, verdict.pruned) == (True, 10, 1, head, 0)


@pytest.mark.parametrize("field", FIELDS[1:])
def test_an_edited_record(field: str, ten: AuditLog, tamper: Tamper) -> None:
    """A change of any field of a record without the key names that record."""
    value: object = {"at": 1.5, "hash": "0" * 64, "prev_hash": "1" * 64}.get(field, 7)
    if field in ("run", "plugin", "owner", "capability", "op", "target", "phase", "decision", "code", "writer"):
        value = "x"
    tamper((f"UPDATE trail SET {field}=? WHERE seq=4", (value,)))
    assert found(ten) == [(Kind.EDITED, 4, 4)]


def test_a_value_of_another_type_is_an_edit(ten: AuditLog, tamper: Tamper) -> None:
    """Bytes in place of the text that they are in JSON show too."""
    tamper(
        ("UPDATE trail SET target=CAST(target AS BLOB) WHERE seq=3", ()), ("UPDATE trail SET code=X'' WHERE seq=6", ())
    )
    assert found(ten) == [(Kind.EDITED, 3, 3), (Kind.EDITED, 6, 6)]


@pytest.mark.parametrize(
    ("where", "expect"),
    [
        ("seq=1", [(Kind.REMOVED, 1, 1)]),
        ("seq=4", [(Kind.REMOVED, 4, 4)]),
        ("seq BETWEEN 4 AND 6", [(Kind.REMOVED, 4, 6)]),
        ("seq IN (2, 5, 6)", [(Kind.REMOVED, 2, 2), (Kind.REMOVED, 5, 6)]),
        ("seq < 10", [(Kind.REMOVED, 1, 9)]),
    ],
)
def test_removed_records(where: str, expect: list[Any], ten: AuditLog, tamper: Tamper) -> None:
    """Each gap is named by the records that it had."""
    tamper(f"DELETE FROM trail WHERE {where}")
    assert found(ten) == expect


def test_records_that_changed_places(ten: AuditLog, tamper: Tamper) -> None:
    """Each is named, with the number that it had."""
    tamper(
        "UPDATE trail SET seq=-1 WHERE seq=3",
        "UPDATE trail SET seq=3 WHERE seq=7",
        "UPDATE trail SET seq=7 WHERE seq=-1",
    )
    verdict = verify(ten.path, ten.key)
    assert [damage.what for damage in verdict.damages] == [
        "record 3 is what was record 7",
        "record 7 is what was record 3",
    ]
    assert {damage.kind for damage in verdict.damages} == {Kind.MOVED}


def test_a_gap_that_was_closed_up(ten: AuditLog, tamper: Tamper) -> None:
    """A record that was removed shows by those that took the numbers after it."""
    tamper("DELETE FROM trail WHERE seq=4", *(f"UPDATE trail SET seq={n - 1} WHERE seq={n}" for n in range(5, 11)))
    assert found(ten) == [(Kind.MOVED, number, number) for number in range(4, 9)] + [(Kind.EDITED, 9, 9)]


def test_a_record_that_was_moved_to_the_end(ten: AuditLog, tamper: Tamper) -> None:
    """It is named once, where it is now."""
    tamper("UPDATE trail SET seq=11 WHERE seq=4")
    assert found(ten) == [(Kind.MOVED, 11, 11)]


def reseal(log: AuditLog, seq: int, *, upto: int, **changes: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """What somebody who has the key does: change a record and seal it, and those after it as far as ``upto``, anew."""
    sealer = Sealer(keys.load(log.key) or b"")
    statements = []
    previous = None
    for record in reading.records(log.path):
        if not seq <= record.seq <= upto:
            continue
        values = {name: getattr(record, name) for name in FIELDS}
        if record.seq == seq:
            values.update(changes)
        if previous is not None:
            values["prev_hash"] = previous
        row = tuple(values.values())[:-1]
        previous = sealer.seal(row)
        statements.append(
            (
                f"UPDATE trail SET ({', '.join(FIELDS)})=({', '.join('?' * len(FIELDS))}) WHERE seq={record.seq}",
                (*row, previous),
            )
        )
    return statements


def test_a_record_that_was_sealed_anew(ten: AuditLog, tamper: Tamper) -> None:
    """With the key: one record alone does not fit the one after it."""
    tamper(*reseal(ten, 4, upto=4, target="elsewhere"))
    assert found(ten) == [(Kind.RESEALED, 4, 5)]


def test_a_tail_that_was_sealed_anew_shows_only_against_an_anchor(ten: AuditLog, tamper: Tamper) -> None:
    """With the key, and as a whole: an anchor from before shows it, and nothing else does."""
    early, late = Anchor(3, list(reading.records(ten.path))[2].hash), anchor(ten.path)
    tamper(*reseal(ten, 4, upto=10, target="elsewhere"))
    assert found(ten) == []
    assert found(ten, early) == []
    assert found(ten, late) == [(Kind.REPLACED, 10, 10)]


def test_a_tail_that_was_cut_shows_only_against_an_anchor(ten: AuditLog, tamper: Tamper, intent: Make) -> None:
    """Before and after the trail has grown again."""
    head = anchor(ten.path)
    tamper("DELETE FROM trail WHERE seq > 7")
    assert found(ten) == []
    assert found(ten, head) == [(Kind.CUT, 8, 10)]
    again = AuditLog(ten.path, ten.key)
    for _ in range(8):
        again.intend(intent())
    assert found(again) == []
    assert found(again, head) == [(Kind.REPLACED, 10, 15)]
    again.close()


def test_all_records_removed(ten: AuditLog, tamper: Tamper) -> None:
    """An empty trail is whole, but not against an anchor."""
    head = anchor(ten.path)
    tamper("DELETE FROM trail")
    assert found(ten) == []
    assert found(ten, head) == [(Kind.CUT, 1, 10)]
    assert found(ten, Anchor()) == []


def test_a_record_that_was_made_up(ten: AuditLog, tamper: Tamper) -> None:
    """A record at the end that was not sealed is named."""
    head = anchor(ten.path)
    row = ", ".join(
        "0" if name in ("at", "micros", "bytes_in", "bytes_out", "cost", "dropped", "intent") else "'x'"
        for name in FIELDS[1:-2]
    )
    tamper(f"INSERT INTO trail ({', '.join(FIELDS)}) VALUES (11, {row}, '{head.hash}', '{'0' * 64}')")
    assert found(ten, head) == [(Kind.EDITED, 11, 11)]


def test_another_key(ten: AuditLog) -> None:
    """Where nothing fits, that is said, and not each record."""
    with open(ten.key, "w") as stream:
        stream.write("00" * 32 + "\n")
    assert found(ten) == [(Kind.KEY, 1, 10)]


def test_no_key(ten: AuditLog) -> None:
    """Nothing is said about a trail without its key."""
    import os

    os.unlink(ten.key)
    with pytest.raises(BackendError):
        verify(ten.path, ten.key)
    assert not os.path.exists(ten.key)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER gone AFTER INSERT ON trail BEGIN DELETE FROM trail WHERE seq=new.seq; END",
        "CREATE TABLE more (a)",
        "CREATE VIEW seen AS SELECT * FROM trail",
    ],
)
def test_what_is_not_ours_in_the_database(statement: str, ten: AuditLog, tamper: Tamper, intent: Make) -> None:
    """A trigger that would remove records shows, and no process begins to write to such a database."""
    tamper(statement)
    assert [damage.kind for damage in verify(ten.path, ten.key).damages] == [Kind.SCHEMA]
    other = AuditLog(ten.path, ten.key)
    with pytest.raises(BackendError):
        other.intend(intent())
    other.close()


def test_a_text_that_is_no_text(ten: AuditLog, tamper: Tamper, intent: Make) -> None:
    """Bytes that are not UTF-8 stop neither verifying nor reading; the record is named."""
    tamper("UPDATE trail SET target=CAST(X'FF41' AS TEXT) WHERE seq IN (4, 10)")
    assert found(ten) == [(Kind.EDITED, 4, 4), (Kind.EDITED, 10, 10)]
    assert [record.target for record in reading.records(ten.path)][3] == "\udcffA"
    other = AuditLog(ten.path, ten.key)
    with pytest.raises(BackendError) as caught:
        other.intend(intent())
    assert "damaged" in str(caught.value)
    other.close()


@pytest.mark.parametrize("where", [0, 20, 4096 + 30, 3 * 4096 + 2000])
def test_a_damaged_file(where: int, log: AuditLog, intent: Make) -> None:
    """A file that SQLite cannot read whole is damage too, and no failure of ours."""
    for _ in range(200):
        log.refused(intent(), code="outside")
    log.close()
    with open(log.path, "r+b") as stream:
        stream.seek(where)
        stream.write(b"\xff" * 60)
    damages = verify(log.path, log.key).damages
    assert damages
    assert {damage.kind for damage in damages} <= {Kind.FILE, Kind.EDITED, Kind.REMOVED, Kind.SCHEMA}


def test_a_damaged_schema_whose_error_is_no_text(ten: AuditLog, intent: Make) -> None:
    """SQLite quotes what it cannot read, and fails in another way where that is not UTF-8; it is damage all the same."""
    ten.close()
    data = Path(ten.path).read_bytes()
    Path(ten.path).write_bytes(data.replace(b"NOT NULL,", b"NOT NULL\xbb", 1))
    with closing(sqlite3.connect(ten.path)) as plain, pytest.raises(UnicodeDecodeError):
        plain.execute("SELECT * FROM sqlite_master").fetchall()  # control: this is such a file
    damages = verify(ten.path, ten.key).damages
    assert [damage.kind for damage in damages] == [Kind.FILE]
    with pytest.raises(BackendError, match="damaged"):
        anchor(ten.path)
    with pytest.raises(BackendError, match="damaged"):
        list(reading.records(ten.path))
    other = AuditLog(ten.path, ten.key)
    with pytest.raises(BackendError, match="damaged"):
        other.intend(intent())
    other.close()


@pytest.mark.parametrize("number", [None, "4", 4.0, b"4"], ids=repr)
def test_a_record_that_has_no_number(number: object, ten: AuditLog) -> None:
    """A damaged file may have anything in the number's column; such a record is named by its place."""
    with closing(sqlite3.connect(ten.path)) as connection:
        rows = connection.execute(f"{schema.SELECT} ORDER BY seq").fetchall()
    secret = keys.load(ten.key)
    assert secret is not None
    rows[3] = (number, *rows[3][1:])
    assert [(damage.kind, damage.first, damage.last) for damage in examine(rows, secret).damages] == [
        (Kind.EDITED, 4, 4)
    ]
    assert {damage.kind for damage in examine([(None, *row[1:]) for row in rows], secret).damages} == {Kind.KEY}


def test_a_beginning_that_was_removed_with_the_key(ten: AuditLog, tamper: Tamper) -> None:
    """With the key, a checkpoint of one's own is not told from pruning; how far it reaches is said."""
    records = list(reading.records(ten.path))
    checkpoint = AuditRecord(seq=6, at=1.5, phase="checkpoint", prev_hash=records[5].hash)
    row = tuple(getattr(checkpoint, name) for name in FIELDS)[:-1]
    row = (*row, Sealer(keys.load(ten.key) or b"").seal(row))
    tamper("DELETE FROM trail WHERE seq<=6", (schema.INSERT, row))
    verdict = verify(ten.path, ten.key)
    assert (verdict.whole, verdict.pruned) == (True, 6)
    # Without the key it cannot be done.
    tamper((f"UPDATE trail SET hash='{'0' * 64}' WHERE seq=6", ()))
    assert found(ten) == [(Kind.REMOVED, 1, 5), (Kind.EDITED, 6, 6)]


def test_anchors_as_text() -> None:
    """What is printed reads back, and nothing else is taken."""
    head = Anchor(12, "ab" * 32)
    assert Anchor.parse(f" {head}\n") == head
    for text in (
        "",
        "12",
        f"x:{'ab' * 32}",
        f"-1:{'ab' * 32}",
        f"1:{'AB' * 32}",
        f"1:{'ab' * 31}",
        f"{'9' * 30}:{'ab' * 32}",
    ):
        with pytest.raises(ConfigurationError):
            Anchor.parse(text)


# properties, on rows in memory


def chain(count: int) -> list[tuple[Any, ...]]:
    sealer, previous, rows = Sealer(KEY), GENESIS, []
    for seq in range(1, count + 1):
        record = AuditRecord(seq=seq, at=seq + 0.5, target=f"t{seq}", micros=seq, prev_hash=previous)
        row = tuple(getattr(record, name) for name in FIELDS)[:-1]
        previous = sealer.seal(row)
        rows.append((*row, previous))
    return rows


CHAIN = chain(40)
HEAD = Anchor(40, CHAIN[-1][-1])


def hit(damages: tuple[Damage, ...], seq: int) -> bool:
    return any(damage.first <= seq <= damage.last for damage in damages)


@given(st.integers(0, 39), st.sampled_from(range(1, len(FIELDS))))
def test_any_edit_is_named(index: int, field: int) -> None:
    """One changed value of one record, wherever: that record is named, and no other."""
    row = list(CHAIN[index])
    row[field] = row[field] + 1 if isinstance(row[field], (int, float)) else row[field] + "x"
    rows = [*CHAIN[:index], tuple(row), *CHAIN[index + 1 :]]
    damages = examine(rows, KEY, HEAD).damages
    assert [(damage.kind, damage.first) for damage in damages if damage.kind is not Kind.REPLACED] == [
        (Kind.EDITED, index + 1)
    ]


@given(st.sets(st.integers(1, 40), min_size=1, max_size=39))
def test_any_removal_is_named(gone: set[int]) -> None:
    """Every record that is missing is in a named gap, and none that is there; the tail against the anchor."""
    damages = examine([row for row in CHAIN if row[0] not in gone], KEY, HEAD).damages
    assert {damage.kind for damage in damages} <= {Kind.REMOVED, Kind.CUT}
    assert {seq for damage in damages for seq in range(damage.first, damage.last + 1)} == gone


@given(st.permutations(range(40)))
@settings(max_examples=house.examples(30))
def test_any_reordering_is_named(order: list[int]) -> None:
    """Every record that is in another's place is named with the place that was its own."""
    rows = [(place + 1, *CHAIN[index][1:]) for place, index in enumerate(order)]
    damages = examine(rows, KEY).damages
    moved = {place + 1: index + 1 for place, index in enumerate(order) if place != index}
    if len(moved) == 40:
        assert [damage.kind for damage in damages] == [Kind.KEY]
    else:
        assert {damage.first: damage.what for damage in damages} == {
            seq: f"record {seq} is what was record {was}" for seq, was in moved.items()
        }


@pytest.mark.parametrize("kept", [CHAIN[:9], CHAIN[:5]], ids=["in place of a record", "after a gap"])
def test_a_genuine_checkpoint_where_it_does_not_belong(kept: list[tuple[Any, ...]]) -> None:
    """One that was sealed at an earlier pruning, put where records before it are: it is named, and stands for nothing."""
    checkpoint = AuditRecord(seq=10, at=1.5, phase="checkpoint", prev_hash=CHAIN[9][-1])
    row = tuple(getattr(checkpoint, name) for name in FIELDS)[:-1]
    row = (*row, Sealer(KEY).seal(row))
    assert examine([row, *CHAIN[10:]], KEY, HEAD).whole
    damages = examine([*kept, row, *CHAIN[10:]], KEY, HEAD).damages
    assert (Kind.EDITED, 10, "record 10 is a checkpoint that stands for nothing here") in [
        (damage.kind, damage.first, damage.what) for damage in damages
    ]


def test_a_ruin_is_counted_and_bounded() -> None:
    """However much is damaged, so many are named, the rest is counted, and it takes no time in proportion to its square."""
    rows = chain(6000)
    chosen = random.Random(1).sample(range(6000), 3000)
    for index in chosen:
        rows[index] = (*rows[index][:2], "x", *rows[index][3:])
    verdict = examine(rows, KEY)
    assert len(verdict.damages) == 1000
    assert len(verdict.damages) + verdict.more == 3000
