"""
The database of an audit trail.
"""

from __future__ import annotations

import functools
import sqlite3
from typing import Any

from fastness.audit.record import FIELDS, AuditRecord
from fastness.database import Database

__all__ = ["FOLLOW", "INSERT", "SELECT", "TRIGGERS", "WAITING", "database", "foreign", "head", "record_of", "tolerant"]

_APPLICATION = 0x46_4E_41_55  # FNAU
_KINDS = {int: "INTEGER NOT NULL", float: "REAL NOT NULL", str: "TEXT NOT NULL"}
_WHOLE = ("seq", "micros", "bytes_in", "bytes_out", "cost", "dropped", "intent")
TYPES: tuple[type, ...] = tuple(int if name in _WHOLE else float if name == "at" else str for name in FIELDS)
_COLUMNS = ", ".join(
    f"{name} {'INTEGER PRIMARY KEY' if name == 'seq' else _KINDS[kind]}"
    for name, kind in zip(FIELDS, TYPES, strict=True)
    if name not in ("cost", "dropped")
)

#: They stop mistakes of ours, and nobody who can write to the file.
TRIGGERS = (
    "CREATE TRIGGER no_change BEFORE UPDATE ON trail BEGIN SELECT RAISE(ABORT, 'a trail is appended to'); END",
    "CREATE TRIGGER no_removal BEFORE DELETE ON trail BEGIN SELECT RAISE(ABORT, 'a trail is appended to'); END",
)
STEPS = (
    (
        f"CREATE TABLE trail ({_COLUMNS})",
        *TRIGGERS,
    ),
    ("ALTER TABLE trail ADD COLUMN cost INTEGER NOT NULL DEFAULT 0",),
    ("ALTER TABLE trail ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0",),
)

SELECT = f"SELECT {', '.join(FIELDS)} FROM trail"  # noqa: S608  # names of our own fields
INSERT = f"INSERT INTO trail ({', '.join(FIELDS)}) VALUES ({', '.join('?' * len(FIELDS))})"  # noqa: S608  # as above

#: As ``INSERT``, but only where the record before is still there: what it finds in place of ``prev_hash`` is nothing
#: else, and NULL is refused.  That nothing came after it is told by the number, which is in use then.
FOLLOW = INSERT.replace(
    f"{'?, ' * FIELDS.index('prev_hash')}?, ?)",
    f"{'?, ' * FIELDS.index('prev_hash')}(SELECT hash FROM trail WHERE seq=? AND hash=?), ?)",  # noqa: S608  # as above
)


def database(path: str, *, patience_s: float = 2.0, make: bool = False) -> Database:
    """The database at ``path``, made where it is missing and ``make`` says so."""
    return Database(path, STEPS, application=_APPLICATION, patience_s=patience_s, make=make)


#: Numbers of the intents that have no outcome, whoever owes it.
WAITING = (
    "SELECT seq FROM trail WHERE phase='intent' AND decision='allowed'"
    " AND seq NOT IN (SELECT intent FROM trail WHERE phase='outcome')"
)


def record_of(row: tuple[Any, ...]) -> AuditRecord:
    """A row as a record.  Values of other types than were written are kept: such a row does not verify."""
    return AuditRecord(**dict(zip(FIELDS, row, strict=True)))


def tolerant(connection: sqlite3.Connection) -> None:
    """Have texts that are not UTF-8 read as what they are not, so that whoever put one in cannot stop the reader."""
    # Made of the type itself: a function of ours for each text would take half of the time of verifying.
    connection.text_factory = functools.partial(str, encoding="utf-8", errors="surrogateescape")


def head(connection: sqlite3.Connection) -> tuple[int, str] | None:
    """Number and hash of the last record."""
    found: tuple[int, str] | None = connection.execute(
        "SELECT seq, hash FROM trail ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    return found


@functools.cache
def _objects() -> frozenset[tuple[str, str, str | None]]:
    with_schema = sqlite3.connect(":memory:")
    try:
        for step in STEPS:
            for statement in step:
                with_schema.execute(statement)
        return frozenset(with_schema.execute("SELECT type, name, sql FROM sqlite_master"))
    finally:
        with_schema.close()


def foreign(connection: sqlite3.Connection) -> list[str]:
    """
    Tables, triggers and the like that are not of our schema, or that are missing.

    A trigger that removes what is appended would else leave no trace.
    """
    found = frozenset(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    return sorted(f"{kind} {name}" for kind, name, _ in found ^ _objects())
