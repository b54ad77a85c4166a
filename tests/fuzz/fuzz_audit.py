"""The audit verifier: a trail that somebody has been at, row by row, and byte by byte of its file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import fuzzing

from fastness.audit import keys, schema
from fastness.audit.log import AuditLog
from fastness.audit.record import FIELDS, GENESIS, AuditRecord, Sealer
from fastness.audit.verify import Anchor, Kind, Verdict, examine, verify
from fastness.broker.trail import Intent
from fastness.errors import BackendError

Row = tuple[Any, ...]

KEY = b"k" * 32
COUNT = 24
_HASH = FIELDS.index("hash")
_TEXTS = ("", "x", "ann", "refused", "checkpoint", "outcome", "\ud800", "é", "0" * 64, b"", b"x", None)
_NUMBERS = (0, 1, -1, 1.0, 0.5, 7, 1 << 53, -(1 << 63), float("inf"), -0.0, 24, 25)


def chain() -> list[Row]:
    """A trail as it is written: records of every phase, some with a cost and some with fields that were dropped."""
    sealer, previous, rows = Sealer(KEY), GENESIS, []
    for seq in range(1, COUNT + 1):
        phase = ("intent", "outcome", "event")[seq % 3]
        record = AuditRecord(
            seq=seq, at=seq + 0.5, target=f"t{seq}", phase=phase, micros=seq, prev_hash=previous,
            cost=seq % 2, dropped=seq % 4 // 2, owner="ann",
        )  # fmt: skip
        row = tuple(getattr(record, name) for name in FIELDS)[:-1]
        previous = sealer.seal(row)
        rows.append((*row, previous))
    return rows


CHAIN = chain()
HEAD = Anchor(COUNT, CHAIN[-1][-1])
KNOWN = {row[0]: row for row in CHAIN}


def is_same(one: Row | None, other: Row | None) -> bool:
    """As SQLite keeps them: 1 is not 1.0, and a text is not the same bytes."""
    return one is not None and other is not None and repr(one) == repr(other)


def edit(source: fuzzing.Source, rows: dict[int, Row]) -> None:
    """One thing that somebody without the key can do to a table whose first column is its key."""
    seq, other = 1 + source.below(COUNT + 4), 1 + source.below(COUNT + 4)
    match source.below(6):
        case 0 if seq in rows:
            field = 1 + source.below(len(FIELDS) - 1)
            row = list(rows[seq])
            row[field] = source.pick(_TEXTS if source.below(2) else _NUMBERS)
            rows[seq] = tuple(row)
        case 1:
            rows.pop(seq, None)
        case 2 if seq in rows and other in rows:
            rows[seq], rows[other] = (seq, *rows[other][1:]), (other, *rows[seq][1:])
        case 3 if seq in rows:
            rows[other] = (other, *rows[seq][1:])
        case 4:
            for gone in [one for one in rows if one >= seq]:
                del rows[gone]
        case 5 if seq in rows:
            # Sealed, but with a key of one's own.
            row = (*rows[seq][:1], source.pick((0.5, 1.5)), *rows[seq][2:-1])
            try:
                rows[seq] = (*row, Sealer(b"o" * 32).seal(row))
            except UnicodeEncodeError:
                return


def rows(source: fuzzing.Source) -> None:
    """Every record that is another, or gone, is named, and none that is as it was."""
    now = dict(KNOWN)
    while source:
        edit(source, now)
    changed = {seq for seq in now if not is_same(now[seq], KNOWN.get(seq))}
    gone = set(KNOWN) - set(now)
    with fuzzing.memory(4 << 20):
        verdict = examine([now[seq] for seq in sorted(now)], KEY, HEAD)
    assert verdict.records == len(now)
    assert verdict.more == 0
    assert verdict.whole == (not changed and not gone)
    said = {seq for damage in verdict.damages for seq in range(damage.first, damage.last + 1)}
    if any(damage.kind is Kind.KEY for damage in verdict.damages):
        assert changed == set(now)
        return
    assert changed <= said, f"not named: {sorted(changed - said)}"
    words = " ".join(damage.what for damage in verdict.damages if damage.kind is Kind.MOVED) + " "
    for seq in gone - said:
        assert f"what was record {seq} " in words, f"record {seq} is gone and not named"
    blamed = {damage.first for damage in verdict.damages if damage.kind in (Kind.EDITED, Kind.MOVED, Kind.RESEALED)}
    assert blamed <= changed, f"nobody touched {sorted(blamed - changed)}"
    for damage in verdict.damages:
        damage.what.encode()
        if damage.kind in (Kind.REMOVED, Kind.CUT):
            assert set(range(damage.first, damage.last + 1)) <= gone | set(range(COUNT + 1, COUNT + 5))


class _File:
    """A trail on disk, made once, whose bytes are changed for each input."""

    def __init__(self) -> None:
        self.folder = fuzzing.place("trail")
        self.path, self.key = str(self.folder / "audit.db"), str(self.folder / "audit.key")
        log = AuditLog(self.path, self.key, patience_s=0.2)
        for number in range(6):
            about = Intent(run="r", plugin="p", owner="ann", capability="fs", operation="read", target=f"t{number}")
            log.done(log.intend(about), about, micros=number)
        log.close()
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode=DELETE")
            self.rows = connection.execute(f"{schema.SELECT} ORDER BY seq").fetchall()
        self.data = (self.folder / "audit.db").read_bytes()
        secret = keys.load(self.key)
        assert secret is not None
        self.head = Anchor(*self.rows[-1][:: len(FIELDS) - 1])

    def verify(self, data: bytes) -> Verdict | None:
        for name in ("audit.db-wal", "audit.db-shm", "audit.db-journal"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "audit.db").write_bytes(data)
        try:
            return verify(self.path, self.key, self.head)
        except BackendError:
            return None

    def read(self) -> list[Row] | None:
        """The rows as anybody else reads them; None where that fails."""
        try:
            with closing(sqlite3.connect(self.path)) as connection:
                return connection.execute(f"{schema.SELECT} ORDER BY seq").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            return None


def file(source: fuzzing.Source) -> None:
    """A file with other bytes is refused or found damaged, or its rows are those that were written."""
    trail = fuzzing.kept(_File)
    data = bytearray(trail.data)
    opened = fuzzing.descriptors()
    while source:
        at = source.number(3) % len(data)
        kind = source.below(4)
        if kind == 3:
            del data[at + 1 :]
        else:
            piece = source.take(1 + kind)
            data[at : at + len(piece)] = piece
    verdict = trail.verify(bytes(data))
    assert fuzzing.descriptors() == opened
    if bytes(data) == trail.data:
        assert verdict is not None and verdict.whole
    if verdict is not None and verdict.whole:
        assert trail.read() == trail.rows


def one(data: bytes) -> None:
    source = fuzzing.Source(data)
    if source.below(4) == 3:
        file(source)
    else:
        rows(source)


def seeds() -> list[bytes]:
    found = [b"\0", b"\3", b"\3\0\0\0\0S", b"\3\20\0\0\0\377", b"\3\0\20\0\3"]
    found += [
        bytes((0, seq, other, kind, 3, 1, 2)) for seq in (0, 5, 23, 25) for other in (1, 9, 24) for kind in range(6)
    ]
    found.append(bytes((0, 3, 9, 2, 9, 4, 2, 4, 0, 1, 20, 0, 4)))
    # A value in the middle of a page of records, whatever the page size is.
    return found + [b"\3" + (place * 256 + 77).to_bytes(3, "little") + b"\0x" for place in range(0, 64, 3)]


TARGET = fuzzing.Target(
    name="audit",
    says="every record that is another or gone is named, and none that is as it was; a damaged file is an answer too",
    one=one,
    seeds=seeds,
    most=256,
)
