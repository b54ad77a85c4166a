"""
Reading an audit trail: a page at a time, so that no reader holds up a writer, and on as more is written.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

from fastness import owed
from fastness.audit import schema
from fastness.audit.record import AuditRecord
from fastness.database import failed

__all__ = ["Query", "follow", "last", "records", "waiting"]

_PAGE = 500
_POLL_S = 0.2


class Query:
    """
    Which records to read: of one ``plugin``, one ``owner``, written at ``since`` or later (seconds since 1970).

    None stands for all.
    """

    def __init__(self, *, plugin: str | None = None, owner: str | None = None, since: float | None = None) -> None:
        conditions = {"plugin=?": plugin, "owner=?": owner, "at>=?": since}
        self.where = "".join(f" AND {name}" for name, value in conditions.items() if value is not None)
        self.values: tuple[Any, ...] = tuple(value for value in conditions.values() if value is not None)


def records(path: str, query: Query | None = None, *, after: int = -1) -> Iterator[AuditRecord]:
    """
    Records of the trail at ``path`` in their order, those with a number of more than ``after``.

    A trail that is not there has none.  Raises BackendError.
    """
    query = query or Query()
    owed.settle()
    if not os.path.lexists(path):
        return
    database = schema.database(path)
    statement = f"{schema.SELECT} WHERE seq>?{query.where} ORDER BY seq LIMIT {_PAGE}"
    try:
        while True:
            with database.reading() as connection:
                schema.tolerant(connection)
                rows = connection.execute(statement, (after, *query.values)).fetchall()
            for row in rows:
                yield schema.record_of(row)
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]
    except (sqlite3.Error, OSError) as error:
        raise failed("reading the audit trail", path, error) from error
    finally:
        database.close()


def last(path: str, query: Query | None = None, *, count: int) -> list[AuditRecord]:
    """The last ``count`` records of a query, oldest first.  Raises BackendError."""
    query = query or Query()
    owed.settle()
    if not os.path.lexists(path):
        return []
    database = schema.database(path)
    try:
        with database.reading() as connection:
            schema.tolerant(connection)
            statement = f"{schema.SELECT} WHERE 1{query.where} ORDER BY seq DESC LIMIT ?"
            rows = connection.execute(statement, (*query.values, count)).fetchall()
    except (sqlite3.Error, OSError) as error:
        raise failed("reading the audit trail", path, error) from error
    finally:
        database.close()
    return [schema.record_of(row) for row in reversed(rows)]


#: How far back calls are looked for that have not ended.
_RECENT = 20_000


def waiting(path: str, plugin: str, owner: str | None = None) -> list[AuditRecord]:
    """
    Intents of a plugin, among the last 20,000 records, that have no outcome: calls that nobody has seen the end of.

    Raises BackendError.
    """
    owed.settle()
    if not os.path.lexists(path):
        return []
    database = schema.database(path)
    recent = "seq > (SELECT COALESCE(MAX(seq), 0) FROM trail) - ?3"
    ended = f"SELECT intent FROM trail WHERE {recent} AND phase='outcome'"  # noqa: S608  # words of our own
    which = "phase='intent' AND decision='allowed' AND plugin=?1 AND (?2 IS NULL OR owner=?2)"
    statement = f"{schema.SELECT} WHERE {recent} AND {which} AND seq NOT IN ({ended}) ORDER BY seq"
    try:
        with database.reading() as connection:
            schema.tolerant(connection)
            rows = connection.execute(statement, (plugin, owner, _RECENT)).fetchall()
    except (sqlite3.Error, OSError) as error:
        raise failed("reading the audit trail", path, error) from error
    finally:
        database.close()
    return [schema.record_of(row) for row in rows]


def follow(
    path: str,
    query: Query | None = None,
    *,
    after: int = -1,
    poll_s: float = _POLL_S,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[AuditRecord]:
    """
    As :func:`records`, and on as more is written by any process; ends only by being closed.

    ``sleep`` waits between two looks.  Where a trail begins anew at a lower number, its records are read from the
    first on.
    """
    while True:
        for record in records(path, query, after=after):
            after = record.seq
            yield record
        newest = last(path, count=1)
        if not newest or newest[0].seq < after:
            after = -1
        sleep(poll_s)
