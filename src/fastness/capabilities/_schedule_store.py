"""
What stands on the schedule, in one database file that all hosts of a home share.

What is due is claimed in a transaction before it fires, so that of any number of hosts one fires it.  A claim names
whoever made it: that of a host that is gone is not fired again, since nobody knows how far it came.  Times are
microseconds since 1970.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from fastness.database import Database
from fastness.errors import QuotaExceeded

__all__ = ["Due", "Ended", "Scheduled", "Store"]

_APPLICATION = 0x46_4E_53_43  # FNSC
_PAGE = 500
_MANY = 1 << 53
#: How often it is looked behind those who have enough: each time some more may have.
_LOOKS = 3
# ``every`` is 0 for what fires once, ``stepping`` 1 where the next time is no more than one step ahead, ``last`` when
# it was claimed last, ``claim`` whoever fires it just now.  ``frees`` is 0 while it stands; what is over is kept until
# then, as it counts for so long.
_SCHEDULES = """
CREATE TABLE schedules (
    key INTEGER PRIMARY KEY, plugin TEXT NOT NULL, owner TEXT NOT NULL, id INTEGER NOT NULL, method TEXT NOT NULL,
    args BLOB NOT NULL, due INTEGER NOT NULL, every INTEGER NOT NULL, made INTEGER NOT NULL, stepping INTEGER NOT NULL,
    fired INTEGER NOT NULL DEFAULT 0, last INTEGER NOT NULL DEFAULT 0, claim TEXT NOT NULL DEFAULT '',
    frees INTEGER NOT NULL DEFAULT 0
)"""
_STEPS = (
    (
        _SCHEDULES,
        "CREATE UNIQUE INDEX schedules_id ON schedules (plugin, owner, id)",
        "CREATE INDEX schedules_due ON schedules (due) WHERE claim = '' AND frees = 0",
        "CREATE INDEX schedules_claim ON schedules (claim) WHERE claim <> ''",
        "CREATE INDEX schedules_frees ON schedules (frees) WHERE frees > 0",
        # Numbers are of plugin and owner: nobody learns from theirs how many others have.
        "CREATE TABLE numbers (plugin TEXT, owner TEXT, last INTEGER NOT NULL, PRIMARY KEY (plugin, owner))",
    ),
)
_STANDING = "plugin, owner, id, method, due, every, made, fired"
_DUE = "key, plugin, owner, id, method, args, due, every"
_WHOSE, _AT, _EVERY = slice(1, 3), 6, 7
_ONE = "plugin = ? AND owner = ? AND id = ?"
_STANDS = "frees = 0 AND (every > 0 OR claim = '')"

Halt = Callable[[], object]
Whose = tuple[str, str]
T = TypeVar("T")


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """
    One that stands: ``method`` of ``plugin`` is called for ``owner`` at ``due``, and ``every`` so many seconds after
    that, or once where it is None.  ``due`` and ``made`` are seconds since 1970; ``fired`` is how often it has.
    """

    plugin: str
    owner: str
    id: int
    method: str
    due: float
    every: float | None
    made: float
    fired: int


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """One that was claimed; ``times`` is how many of its times have come, of which all but the last were missed."""

    key: int
    plugin: str
    owner: str
    id: int
    method: str
    args: bytes
    due: int
    every: int
    times: int = 1

    @property
    def whose(self) -> Whose:
        """Its plugin and owner."""
        return self.plugin, self.owner


class Ended(msgspec.Struct, frozen=True):
    """A claim that is over, of what fires ``again`` or only once; the latter counts until ``frees``."""

    key: int
    again: bool
    frees: int = 0


class Store:
    """
    The schedule in the file ``path``.  Methods block, and raise ``sqlite3.Error``, ``OSError`` and BackendError where
    it cannot be used.  ``halt`` is called before a change is committed, and what it raises undoes it.
    """

    def __init__(self, path: str) -> None:
        self._database = Database(path, _STEPS, application=_APPLICATION)

    # of plugins

    def add(
        self,
        whose: Whose,
        method: str,
        args: bytes,
        *,
        due: int,
        every: int,
        stepping: bool,
        most: int,
        now: int,
        halt: Halt,
    ) -> int:
        """Have one stand; its number.  Raises QuotaExceeded where that would be more than ``most``."""
        self._database.renewed()
        with self._database.writing() as connection:
            (count,) = connection.execute(
                "SELECT count(*) FROM schedules WHERE plugin = ? AND owner = ? AND (frees = 0 OR frees > ?)",
                (*whose, now),
            ).fetchone()
            if count >= most:
                raise QuotaExceeded(f"no more than {most} may stand; what has fired counts a while longer")
            (number,) = connection.execute(
                "INSERT INTO numbers VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET last = last + 1 RETURNING last", whose
            ).fetchone()
            connection.execute(
                "INSERT INTO schedules (plugin, owner, id, method, args, due, every, made, stepping)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*whose, number, method, args, due, every, now, int(stepping)),
            )
            halt()
        return int(number)

    def cancel(self, whose: Whose, number: int, now: int, halt: Halt = lambda: None) -> bool:
        """Take one off; False where there is none.  What fires just now goes on, and not again."""
        self._database.renewed()
        with self._database.writing() as connection:
            row = connection.execute(
                f"SELECT key, every, last, claim FROM schedules WHERE {_ONE} AND {_STANDS}",  # noqa: S608  # words of our own
                (*whose, number),
            ).fetchone()
            if row is None:
                return False
            key, every, last, claim = row
            frees = last + every if last else 0
            if claim or frees > now:
                # Until its next time would have come: taken off and put on again it fires no more often.
                connection.execute("UPDATE schedules SET frees = ? WHERE key = ?", (max(frees, 1), key))
            else:
                connection.execute("DELETE FROM schedules WHERE key = ?", (key,))
            halt()
        return True

    def those(self, whose: Whose, after: int, limit: int) -> tuple[list[Scheduled], bool]:
        """Those of a plugin and owner with numbers above ``after``, by number; and whether there are more."""
        self._database.renewed()
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_STANDING} FROM schedules WHERE plugin = ? AND owner = ? AND id > ? AND {_STANDS}"  # noqa: S608  # as above
                " ORDER BY id LIMIT ?",
                (*whose, after, limit + 1),
            ).fetchall()
        return [_standing(row) for row in rows[:limit]], len(rows) > limit

    def count(self, whose: Whose, below: int, most: int, now: int) -> int:
        """How many of a plugin and owner count that have numbers below that; it is counted as far as ``most``."""
        found = self._database.read(
            "SELECT count(*) FROM (SELECT 1 FROM schedules WHERE plugin = ? AND owner = ? AND id < ?"
            " AND (frees = 0 OR frees > ?) LIMIT ?)",
            (*whose, below, now, most),
        )
        return 0 if found is None else int(found[0])

    # of the host

    def standing(self, plugin: str | None = None, owner: str | None = None) -> Iterator[Scheduled]:
        """All that stand, by plugin, owner and number; of one plugin or owner where they are named."""
        after: tuple[Any, ...] = ("", "", 0)
        while True:
            self._database.renewed()
            with self._database.reading() as connection:
                rows = connection.execute(
                    f"SELECT {_STANDING} FROM schedules WHERE (plugin, owner, id) > (?, ?, ?) AND {_STANDS}"  # noqa: S608  # as above
                    " AND (?4 IS NULL OR plugin = ?4) AND (?5 IS NULL OR owner = ?5)"
                    " ORDER BY plugin, owner, id LIMIT ?6",
                    (*after, plugin, owner, _PAGE),
                ).fetchall()
            yield from map(_standing, rows)
            if len(rows) < _PAGE:
                return
            after = rows[-1][:3]

    def forget(self, plugin: str) -> None:
        """Take off all of a plugin, of every owner."""
        self._database.renewed()
        with self._database.writing() as connection:
            # What fires just now keeps its key until it has ended, and nothing else: another's with the same key would
            # end with it.
            connection.execute(
                "UPDATE schedules SET plugin = '', owner = CAST(key AS TEXT), method = '', args = x'', frees = 1"
                " WHERE plugin = ? AND claim <> ''",
                (plugin,),
            )
            connection.execute("DELETE FROM schedules WHERE plugin = ?", (plugin,))
            connection.execute("DELETE FROM numbers WHERE plugin = ?", (plugin,))

    # of whoever fires

    def next(self) -> int | None:
        """When the next one is due."""
        self._database.renewed()
        found = self._database.read("SELECT min(due) FROM schedules WHERE claim = '' AND frees = 0", ())
        return None if found is None or found[0] is None else int(found[0])

    def claim(
        self,
        name: str,
        now: int,
        *,
        most: int,
        each: int,
        side: int = _MANY,
        busy: Mapping[Whose, int],
        grace: int,
        ended: Iterable[Ended] = (),
        behind: bool = True,
    ) -> tuple[list[Due], list[Due]]:
        """
        End the claims of ``ended``, and claim what is due, the longest first: what is to fire, and what was missed.

        ``most`` are claimed at once, so that ``each`` plugin and owner has no more than so many, with those that are
        ``busy``, and a plugin for all its owners, or an owner with all plugins, no more than ``side``.  What fires once
        and is later than ``grace`` is missed, and over.  With ``behind`` also what is due behind very many of those who
        have enough is found, which means to go through all of theirs.
        """
        having = _Having(busy, each, side)
        found: dict[int, Due] = {}
        missed: list[Due] = []
        self._database.renewed()
        with self._database.writing() as connection:
            self._end(connection, name, ended, now)
            # Those that are due the longest; and where these have enough, whoever has not.
            for number in range(1 + _LOOKS * behind if most > 0 else 0):
                before = len(found)
                rows = _due(connection, now, having if number else None, most)
                for row in rows:
                    if row[_EVERY] == 0 and row[_AT] < now - grace:
                        connection.execute("DELETE FROM schedules WHERE key = ?", row[:1])
                        missed.append(_made(row))
                    elif row[0] not in found and len(found) < most and having.more(row[_WHOSE]):
                        # How many of its times have come.
                        found[row[0]] = _made(row, (now - row[_AT]) // row[_EVERY] + 1 if row[_EVERY] else 1)
                if missed or len(found) == most or len(rows) < most or (number and len(found) == before):
                    break
            connection.executemany(
                "UPDATE schedules SET claim = ?, due = due + every * ?, stepping = 1, fired = fired + 1, last = ?"
                " WHERE key = ?",
                [(name, one.times, now, one.key) for one in found.values()],
            )
        return list(found.values()), missed

    @staticmethod
    def _end(connection: sqlite3.Connection, name: str, ended: Iterable[Ended], now: int) -> None:
        over, kept = [], []
        for one in ended:
            if one.frees <= now and not one.again:
                over.append((one.key, name))
            else:
                kept.append((one.frees, one.key, name))
        connection.executemany("DELETE FROM schedules WHERE key = ? AND claim = ?", over)
        connection.executemany(
            "UPDATE schedules SET claim = '', frees = CASE WHEN every > 0 OR frees > 0 THEN frees ELSE ? END"
            " WHERE key = ? AND claim = ?",
            kept,
        )
        connection.execute("DELETE FROM schedules WHERE frees > 0 AND frees <= ? AND claim = ''", (now,))

    def alone(self, work: Callable[[], T]) -> T:
        """The result of ``work`` while nobody else changes anything here."""
        self._database.renewed()
        with self._database.writing():
            return work()

    def lost(self, living: Callable[[], Collection[str]]) -> list[Due]:
        """Claims of whoever does not live, which are over; what fires again and again goes on."""
        self._database.renewed()
        with self._database.reading() as connection:
            if not self._gone(connection, living):
                return []
        found: list[Due] = []
        with self._database.writing() as connection:
            # Whoever has a claim lived before it, and nobody begins to while this goes on.
            for name in self._gone(connection, living):
                rows = connection.execute(f"SELECT {_DUE} FROM schedules WHERE claim = ?", (name,)).fetchall()  # noqa: S608  # as above
                # Those of plugins that were removed meanwhile are nobody's.
                found += [one for one in map(_made, rows) if one.plugin]
                connection.execute("DELETE FROM schedules WHERE claim = ? AND (every = 0 OR frees > 0)", (name,))
                connection.execute("UPDATE schedules SET claim = '' WHERE claim = ?", (name,))
        return found

    @staticmethod
    def _gone(connection: sqlite3.Connection, living: Callable[[], Collection[str]]) -> set[str]:
        rows = connection.execute("SELECT DISTINCT claim FROM schedules WHERE claim <> ''").fetchall()
        return {str(name) for (name,) in rows} - set(living()) if rows else set()

    def restep(self, now: int) -> None:
        """After the clock was put back: no next time is more than a step ahead, and no call is yet to come."""
        self._database.renewed()
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE schedules SET due = due - (due - ?1 - 1) / every * every"
                " WHERE every > 0 AND stepping = 1 AND frees = 0 AND due > ?1 + every",
                (now,),
            )
            connection.execute("UPDATE schedules SET frees = 1 WHERE frees > 0 AND last > ?", (now,))

    def close(self) -> None:
        """Close it; the next use opens it again."""
        self._database.close()


class _Having:
    """How many calls are under way, of a plugin and owner, of a plugin, and of an owner."""

    def __init__(self, busy: Mapping[Whose, int], each: int, side: int) -> None:
        self._each, self._side = each, side
        self._pairs, self._plugins, self._owners = Counter(busy), Counter[str](), Counter[str]()
        for (plugin, owner), count in busy.items():
            self._plugins[plugin] += count
            self._owners[owner] += count

    def more(self, whose: Whose) -> bool:
        """Whether there may be one more of these, which there is then."""
        plugin, owner = whose
        if self._pairs[whose] >= self._each or max(self._plugins[plugin], self._owners[owner]) >= self._side:
            return False
        self._pairs[whose] += 1
        self._plugins[plugin] += 1
        self._owners[owner] += 1
        return True

    def full(self) -> tuple[list[Whose], list[str], list[str]]:
        """Who has enough."""
        pairs = [whose for whose, count in self._pairs.items() if count >= self._each]
        plugins, owners = (
            [name for name, count in of.items() if count >= self._side] for of in (self._plugins, self._owners)
        )
        return pairs, plugins, owners


def _due(connection: sqlite3.Connection, now: int, having: _Having | None, most: int) -> list[Any]:
    """What is due the longest; where it is said who has how many, of those who have not enough."""
    pairs, plugins, owners = ([], [], []) if having is None else having.full()
    without = f" AND (plugin, owner) NOT IN (VALUES {', '.join(['(?, ?)'] * len(pairs))})" if pairs else ""
    for column, names in (("plugin", plugins), ("owner", owners)):
        without += f" AND {column} NOT IN ({', '.join('?' * len(names))})" if names else ""
    return connection.execute(
        f"SELECT {_DUE} FROM schedules WHERE claim = '' AND frees = 0 AND due <= ?{without} ORDER BY due LIMIT ?",  # noqa: S608  # as above
        (now, *(name for whose in pairs for name in whose), *plugins, *owners, most),
    ).fetchall()


def _made(row: tuple[Any, ...], times: int = 1) -> Due:
    key, plugin, owner, number, method, args, due, every = row
    # That of the last of its times.
    due += every * (times - 1)
    return Due(
        key=key, plugin=plugin, owner=owner, id=number, method=method, args=args, due=due, every=every, times=times
    )


def _standing(row: tuple[Any, ...]) -> Scheduled:
    plugin, owner, number, method, due, every, made, fired = row
    return Scheduled(
        plugin=plugin,
        owner=owner,
        id=number,
        method=method,
        due=due / 1e6,
        every=every / 1e6 if every else None,
        made=made / 1e6,
        fired=fired,
    )
