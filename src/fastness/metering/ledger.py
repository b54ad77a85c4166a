"""
The ledger of what plugins use for owners: what was used, and what is held for use just now.

Whoever wants to use something up takes it first: it is held, and counts from then on, whatever becomes of the process.
What was really used is written when it is settled.  So no number of callers at once passes a quota, and where a
process dies in between, what it held stays counted.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from fastness import owed
from fastness.database import Database, failed
from fastness.errors import QuotaExceeded
from fastness.metering.quotas import EACH, MEASURES, Amounts, Quota, first_day, today

__all__ = ["Held", "Ledger", "Left", "Tally", "Used", "counted"]

_APPLICATION = 0x46_4E_55_53  # FNUS
_COLUMNS = ("runs", "calls", "refused", "bytes_in", "bytes_out", "cpu_micros", "cost", "disputed")
_USED = f"""
CREATE TABLE used (
    owner TEXT NOT NULL, plugin TEXT NOT NULL, day INTEGER NOT NULL, kind TEXT NOT NULL,
    {", ".join(f"{name} INTEGER NOT NULL" for name in _COLUMNS)},
    PRIMARY KEY (owner, plugin, day, kind)
) WITHOUT ROWID"""
# What is held by somebody; where that process is gone, it stays.
_HELD = f"""
CREATE TABLE held (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, plugin TEXT NOT NULL, day INTEGER NOT NULL,
    kind TEXT NOT NULL, at REAL NOT NULL, {", ".join(f"{name} INTEGER NOT NULL" for name in MEASURES)}
)"""
_STEPS = ((_USED, "CREATE INDEX used_day ON used (day)", _HELD, "CREATE INDEX held_whose ON held (owner, plugin)"),)
_ADD = (
    f"INSERT INTO used VALUES (?, ?, ?, ?, {', '.join('?' * len(_COLUMNS))}) ON CONFLICT DO UPDATE SET "  # noqa: S608  # names of our own
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _COLUMNS)
)
#: How each measure is summed over rows of ``used``.
_SUMS = {"calls": "calls", "bytes": "bytes_in + bytes_out", "cpu_micros": "cpu_micros", "cost": "cost"}
_MOST = (1 << 53) - 1


class Tally(msgspec.Struct, kw_only=True):
    """What was used of one kind of capability; of the kind ``""``, what a run itself used."""

    runs: int = 0
    calls: int = 0
    refused: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    cpu_micros: int = 0
    cost: int = 0
    disputed: int = 0


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a plugin used for an owner of one kind on one day, in days since 1970 of UTC.

    ``refused`` counts calls that were refused, whether they are among ``calls`` or a quota kept them out.  ``cost`` is
    billionths of money; ``disputed`` counts the answers whose price was not to be believed.

    Rows with ``held`` are of what was taken and is not settled: by a run that goes on, or by a process that is gone.
    """

    owner: str
    plugin: str
    day: int
    kind: str = ""
    runs: int = 0
    calls: int = 0
    refused: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    cpu_micros: int = 0
    cost: int = 0
    disputed: int = 0
    held: Amounts | None = None


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """How far a quota is used up just now, by whom it is about: ``used`` counts what is held."""

    quota: Quota
    plugin: str
    owner: str
    used: Amounts


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody has taken and not settled."""

    id: int
    owner: str
    plugin: str
    day: int
    kind: str
    amounts: Amounts


class Ledger:
    """
    The ledger in the database file ``path``; its folder exists and is private to this user.

    ``quotas`` are the operator's.  Any thread and any number of processes may use it.  Methods raise BackendError where
    it cannot be read or written; then nothing was taken, or settled.  Nothing is opened before the first use.
    """

    def __init__(self, path: str, quotas: Iterable[Quota] = (), *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.quotas = tuple(quotas)
        self._clock = clock
        self._database = Database(path, _STEPS, application=_APPLICATION)

    def bounds(self, plugin: str, owner: str) -> frozenset[str]:
        """The measures that some quota bounds for these two."""
        concerned = [one for one in self.quotas if one.concerns(plugin, owner)]
        return frozenset(name for name in MEASURES for one in concerned if getattr(one, name) is not None)

    def take(
        self,
        plugin: str,
        owner: str,
        kind: str,
        wanted: Amounts,
        least: Amounts,
        *,
        more: Iterable[Quota] = (),
        share: int = 1,
        sync: bool = False,
        settles: Iterable[Held] = (),
        used: Mapping[str, Tally] | None = None,
    ) -> Held:
        """
        Hold as much of ``wanted`` as quotas leave, and no less than ``least``, where quotas bound it at all.

        ``more`` are quotas beside the operator's.  With a ``share`` of n, no more than the n-th part of what is left is
        taken, or ``least``, so that others find something too.  With ``sync`` it is on disk on return.

        What it ``settles`` is given back before, with what was ``used``, in the same transaction: nobody takes what
        lies between.  Raises QuotaExceeded, in words fit for a guest, where there is less; then nothing was settled.
        """
        day = today(self._clock())
        amounts = {name: getattr(wanted, name) for name in MEASURES}
        rules = [one for one in (*self.quotas, *more) if one.concerns(plugin, owner)]
        try:
            self._database.renewed()
            with self._database.writing(sync=sync) as connection:
                _settled(connection, tuple(settles), used or {}, plugin, owner, day)
                for rule in rules:
                    for name in MEASURES:
                        most = getattr(rule, name)
                        if most is None or not amounts[name]:
                            continue
                        left = most - _sum(connection, rule, name, plugin, owner, day)
                        floor = getattr(least, name)
                        if left < floor or left <= 0:
                            raise QuotaExceeded(f"no more than {rule.words(name)} may be used, and too little is left")
                        amounts[name] = min(amounts[name], max(left // share, floor, 1))
                values = (owner, plugin, day, kind, self._clock(), *(amounts[name] for name in MEASURES))
                found = connection.execute(f"INSERT INTO held VALUES (NULL, {', '.join('?' * len(values))})", values)  # noqa: S608  # marks
                number = int(found.lastrowid or 0)
        except (sqlite3.Error, OSError) as error:
            raise failed("taking from what may be used", self.path, error) from error
        return Held(id=number, owner=owner, plugin=plugin, day=day, kind=kind, amounts=Amounts(**amounts))

    def settle(self, held: Iterable[Held], used: Mapping[str, Tally], *, plugin: str, owner: str) -> None:
        """
        Give back what is held, and write down what was used, by kind: both, or neither.

        What was given back before is not counted again.  It counts for the day on which it was taken.
        """
        held = tuple(held)
        day = held[0].day if held else today(self._clock())
        try:
            self._database.renewed()
            with self._database.writing() as connection:
                _settled(connection, held, used, plugin, owner, day)
        except (sqlite3.Error, OSError) as error:
            raise failed("writing down what was used", self.path, error) from error

    # looking

    def used(self, *, plugin: str | None = None, owner: str | None = None, since: int = 0) -> list[Used]:
        """What was used from a day on, by owner, plugin, day and kind; and what is held."""
        where, values = _where(since, owner, plugin)
        columns = "owner, plugin, day, kind"
        # Names of our own fields, and marks.
        of_used = f"SELECT {columns}, {', '.join(_COLUMNS)} FROM used WHERE {where} ORDER BY {columns}"  # noqa: S608  # see above
        sums = ", ".join(f"sum({name})" for name in MEASURES)
        of_held = f"SELECT {columns}, {sums} FROM held WHERE {where} GROUP BY {columns} ORDER BY {columns}"  # noqa: S608  # see above
        owed.settle()
        try:
            with self._database.reading() as connection:
                rows = connection.execute(of_used, values).fetchall()
                held = connection.execute(of_held, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise failed("reading what was used", self.path, error) from error
        names = ("owner", "plugin", "day", "kind", *_COLUMNS)
        found = [Used(**dict(zip(names, row, strict=True))) for row in rows]
        for row in held:
            amounts = Amounts(**dict(zip(MEASURES, row[4:], strict=True)))
            found.append(Used(**dict(zip(names, row[:4], strict=False)), held=amounts))
        return found

    def left(self, plugin: str, owner: str) -> list[Left]:
        """How far each quota is used up that these two count for."""
        owed.settle()
        day = today(self._clock())
        try:
            with self._database.reading() as connection:
                return [
                    Left(
                        quota=rule,
                        plugin=plugin if rule.plugin else "",
                        owner=owner if rule.owner else "",
                        used=Amounts(**{name: _sum(connection, rule, name, plugin, owner, day) for name in MEASURES}),
                    )
                    for rule in self.quotas
                    if rule.concerns(plugin, owner)
                ]
        except (sqlite3.Error, OSError) as error:
            raise failed("reading what was used", self.path, error) from error

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        self._database.close()


def _settled(
    connection: sqlite3.Connection,
    held: tuple[Held, ...],
    used: Mapping[str, Tally],
    plugin: str,
    owner: str,
    day: int,
) -> None:
    gone = 0
    for one in held:
        gone += connection.execute("DELETE FROM held WHERE id = ?", (one.id,)).rowcount
    if held and not gone:
        return
    for kind, tally in used.items():
        counts = tuple(min(max(getattr(tally, name), 0), _MOST) for name in _COLUMNS)
        connection.execute(_ADD, (owner, plugin, day, kind, *counts))


def _sum(connection: sqlite3.Connection, rule: Quota, measure: str, plugin: str, owner: str, day: int) -> int:
    """What counts for a quota: used and held, by those that it is about."""
    who = {"": None, EACH: owner}.get(rule.owner, rule.owner)
    what = {"": None, EACH: plugin}.get(rule.plugin, rule.plugin)
    where, values = _where(first_day(rule.per, day), who, what)
    total = 0
    for table, counts in (("used", _SUMS[measure]), ("held", measure)):
        query = f"SELECT coalesce(sum({counts}), 0) FROM {table} WHERE {where}"  # noqa: S608  # words of our own
        total += int(connection.execute(query, values).fetchone()[0])
    return total


def _where(since: int, owner: str | None, plugin: str | None) -> tuple[str, list[Any]]:
    where = "day >= ?"
    named: list[Any] = [since]
    for name, value in (("owner", owner), ("plugin", plugin)):
        if value is not None:
            where = f"{where} AND {name} = ?"
            named.append(value)
    return where, named


def counted(rows: Iterable[Used]) -> dict[tuple[str, str], Any]:
    """Sums by owner and plugin of rows that are used, and of what is held."""
    found: dict[tuple[str, str], Any] = {}
    for row in rows:
        used, held = found.setdefault((row.owner, row.plugin), (Tally(), dict.fromkeys(MEASURES, 0)))
        if row.held is None:
            for name in _COLUMNS:
                setattr(used, name, getattr(used, name) + getattr(row, name))
        else:
            for name in MEASURES:
                held[name] += getattr(row.held, name)
    return found
