"""
Keeping an audit trail from growing for ever: old records give way to a checkpoint that is sealed as they were.

The checkpoint has the number of the last record that it stands for, and that one's hash, so that the chain goes on.
That the records were whole is looked at before they go; afterwards nobody can.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from fastness import owed
from fastness.audit import keys, schema
from fastness.audit.log import AuditLog
from fastness.audit.record import FIELDS, AuditRecord, Sealer
from fastness.audit.verify import examine
from fastness.database import Database, failed
from fastness.errors import BackendError

__all__ = ["prune"]

_STEP = "pruning the audit trail"


def prune(log: AuditLog, *, before: float) -> int:
    """
    Remove the records that are older than ``before``, seconds since 1970; how many were removed.

    The last record stays, and so does each that is not older than an intent without an outcome.  A record says what was
    done.  Raises BackendError, and removes nothing, where one that would go is damaged.
    """
    owed.settle()
    database = schema.database(log.path)
    try:
        with database.reading() as connection:
            upto = _upto(connection, before)
        if upto is None:
            return 0
        # What is told before it is done: `intent` first, then the outcome.
        about = _About(target=f"records up to {upto}")
        number = log.intend(about)
        try:
            count = _replace(database, log.key, upto)
        except BaseException:
            log.done(number, about, code="failed")
            raise
        log.done(number, about)
    except (sqlite3.Error, OSError) as error:
        raise failed(_STEP, log.path, error) from error
    finally:
        database.close()
    return count


class _About(msgspec.Struct, frozen=True, kw_only=True):
    run: str = ""
    plugin: str = ""
    owner: str = ""
    capability: str = "audit"
    operation: str = "prune"
    target: str
    leaves: bool = False


def _upto(connection: sqlite3.Connection, before: float) -> int | None:
    """The number of the last record that goes."""
    (recent,) = connection.execute("SELECT min(seq) FROM trail WHERE at >= ?", (before,)).fetchone()
    (waiting,) = connection.execute(f"SELECT min(seq) FROM ({schema.WAITING})").fetchone()  # noqa: S608  # our own words
    (last,) = connection.execute("SELECT max(seq) FROM trail").fetchone()
    if last is None:
        return None
    kept = min(seq for seq in (recent, waiting, last) if seq is not None)
    found = connection.execute(
        "SELECT seq FROM trail WHERE seq < ? AND phase != 'checkpoint' ORDER BY seq DESC LIMIT 1", (kept,)
    ).fetchone()
    return None if found is None else int(found[0])


def _replace(database: Database, key: str, upto: int) -> int:
    secret = keys.load(key)
    if secret is None:
        raise BackendError(_STEP, f"the key {key} is not there", "put it back")
    with database.reading() as connection:
        schema.tolerant(connection)
        verdict = examine(_rows(connection, upto), secret)
        if not verdict.whole:
            raise BackendError(_STEP, f"what would go is damaged: {verdict.damages[0].what}", "keep it as it is")
    with database.writing(sync=True) as connection:
        row = connection.execute(f"{schema.SELECT} WHERE seq=?", (upto,)).fetchone()
        if row is None or row[FIELDS.index("hash")] != verdict.head.hash:
            raise BackendError(_STEP, "another process pruned meanwhile", "try again")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("DROP TRIGGER no_removal")
        count = connection.execute("DELETE FROM trail WHERE seq <= ? AND phase != 'checkpoint'", (upto,)).rowcount
        connection.execute("DELETE FROM trail WHERE seq <= ?", (upto,))
        checkpoint = AuditRecord(
            seq=upto,
            at=round(time.time(), 6),
            capability="audit",
            op="checkpoint",
            target=f"stands for records 1 to {upto}",
            phase="checkpoint",
            prev_hash=verdict.head.hash,
        )
        row = msgspec.structs.astuple(checkpoint)[:-1]
        connection.execute(schema.INSERT, (*row, Sealer(secret).seal(row)))
        connection.execute(schema.TRIGGERS[1])
    return count


def _rows(connection: sqlite3.Connection, upto: int) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(f"{schema.SELECT} WHERE seq <= ? ORDER BY seq", (upto,))
