"""
Signals that wait, in one database file: a queue for each owner and receiver, each change of them one transaction.

Each signal carries its *cause*, which is the run or the program that began what led to it, and how many signals led
from there to it.  Both come from the host.  What one cause may lead to is counted beside the queues, so that no number
of plugins that answer each other goes on without an end, in whichever processes they run.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from fastness.database import Database
from fastness.errors import QuotaExceeded

__all__ = ["CAUSE_MAX", "HOPS_MAX", "HOST", "KEEP_S", "Queue", "Signal", "Store"]

#: Who receives what plugins publish beside other plugins: the program that hosts them.  No plugin has this id.
HOST = ""
#: Signals in a row that lead from one to the next.
HOPS_MAX = 8
#: Signals that one cause may lead to, each counted once for each queue that it goes to.
CAUSE_MAX = 256
#: Seconds that a signal waits, and that a cause is counted.
KEEP_S = 7 * 86_400.0
_CAUSE_S = 86_400.0
#: Seconds between looks for what has waited too long.
_PRUNE_S = 60.0
_APPLICATION = 0x46_4E_53_47  # FNSG
_SIGNALS = """
CREATE TABLE signals (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, plugin TEXT NOT NULL, topic TEXT NOT NULL,
    sender TEXT NOT NULL, at REAL NOT NULL, cause INTEGER NOT NULL, hop INTEGER NOT NULL, data BLOB NOT NULL
)"""
# What was dropped, in all and since the receiver was told.
_QUEUES = """
CREATE TABLE queues (
    owner TEXT NOT NULL, plugin TEXT NOT NULL, dropped INTEGER NOT NULL, untold INTEGER NOT NULL,
    PRIMARY KEY (owner, plugin)
) WITHOUT ROWID"""
_CAUSES = "CREATE TABLE causes (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, at REAL NOT NULL)"
_STEPS = (
    (
        _SIGNALS,
        "CREATE INDEX signals_whose ON signals (owner, plugin)",
        "CREATE INDEX signals_at ON signals (at)",
        _QUEUES,
        _CAUSES,
        "CREATE INDEX causes_at ON causes (at)",
    ),
)
_ROW = "SELECT id, owner, plugin, topic, sender, at, cause, hop, data FROM signals"
_WHOSE = " WHERE owner = ? AND plugin = ?"

Halt = Callable[[], object]


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that waited for ``plugin``; ``at`` is seconds since 1970, ``data`` is encoded as on the wire."""

    id: int
    owner: str
    plugin: str
    topic: str
    sender: str
    at: float
    cause: int
    hop: int
    data: bytes


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """
    What waits for a plugin and an owner: ``waiting`` signals of ``bytes``, the ``oldest`` from that time in seconds
    since 1970 (0 where none waits); ``dropped`` counts those that never reached it.  The plugin ``""`` is the program.
    """

    owner: str
    plugin: str
    waiting: int = 0
    bytes: int = 0
    oldest: float = 0.0
    dropped: int = 0


class Store:
    """
    The signals in the file ``path``.  Methods block, and raise ``sqlite3.Error``, ``OSError`` and BackendError where it
    cannot be used.  ``halt`` is called before a change is committed, and what it raises undoes it.
    """

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self._database = Database(path, _STEPS, application=_APPLICATION)
        self._clock = clock
        self._pruned = 0.0

    # sending

    def put(
        self,
        owner: str,
        sender: str,
        topic: str,
        data: bytes,
        cause: tuple[int, int],
        receivers: Iterable[tuple[str, int]],
        halt: Halt,
    ) -> tuple[int, int]:
        """
        Let a signal wait for each of the ``receivers``, who have so many places each; in how many queues it is, and in
        how many there was no place.

        One sender has half of the places of a queue at most.  ``cause`` is a number, and the hop that this signal is.
        Raises QuotaExceeded where that cause has led to enough: then it is in none.
        """
        self._database.renewed()
        number, hop = cause
        if hop > HOPS_MAX:
            raise QuotaExceeded(f"signals led to signals {HOPS_MAX} times; this would be one more")
        wanted, now = list(receivers), self._clock()
        queued = 0
        with self._database.writing() as connection:
            self._prune(connection, now)
            row = connection.execute("SELECT count FROM causes WHERE id = ?", (number,)).fetchone()
            count = (0 if row is None else int(row[0])) + len(wanted)
            if count > CAUSE_MAX:
                raise QuotaExceeded(f"what began this has led to {CAUSE_MAX} signals, and leads to no more")
            connection.execute("INSERT OR REPLACE INTO causes VALUES (?, ?, ?)", (number, count, now))
            for plugin, places in wanted:
                waiting, own = connection.execute(
                    f"SELECT count(*), coalesce(sum(sender = ?), 0) FROM signals{_WHOSE}",  # noqa: S608  # our own words
                    (sender, owner, plugin),
                ).fetchone()
                if waiting >= places or own >= (places + 1) // 2:
                    _drop(connection, owner, plugin, 1)
                    continue
                connection.execute(
                    "INSERT INTO signals VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (owner, plugin, topic, sender, now, number, hop, data),
                )
                queued += 1
            halt()
        return queued, len(wanted) - queued

    def put_back(self, signal: Signal) -> None:
        """Let a signal wait again that was taken and did not reach its plugin."""
        with self._database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO signals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _values(signal))

    # receiving

    def take(
        self, owner: str, plugin: str, most: int, size: int, fits: Callable[[str], bool], halt: Halt, *, leave: bool
    ) -> tuple[list[Signal], int, bool]:
        """
        The oldest signals whose topic ``fits``, so many and of so many bytes at most but one at least, which wait no
        more; how many were dropped since the last time; and whether there are more.

        Others stay where they are with ``leave``, else they are dropped, as nobody will ever take them.
        """
        self._database.renewed()
        found: list[Signal] = []
        others: list[int] = []
        more, held = False, 0
        with self._database.writing() as connection:
            self._prune(connection, self._clock())
            for row in connection.execute(f"{_ROW}{_WHOSE} ORDER BY id", (owner, plugin)):
                signal = _signal(row)
                if not fits(signal.topic):
                    others.append(signal.id)
                elif len(found) < most and (not found or held + len(signal.data) <= size):
                    found.append(signal)
                    held += len(signal.data)
                else:
                    more = True
                    break
            if others and not leave:
                _delete(connection, others)
                _drop(connection, owner, plugin, len(others))
            _delete(connection, [one.id for one in found])
            row = connection.execute(f"SELECT untold FROM queues{_WHOSE}", (owner, plugin)).fetchone()  # noqa: S608  # our own words
            connection.execute(f"UPDATE queues SET untold = 0{_WHOSE}", (owner, plugin))  # noqa: S608  # our own words
            halt()
        return found, 0 if row is None else int(row[0]), more

    def waiting(self, owner: str, plugin: str) -> list[tuple[int, str]]:
        """Numbers and topics of what waits for a plugin, the oldest first; what has waited too long is dropped."""
        self._database.renewed()
        with self._database.reading() as connection:
            rows = connection.execute(f"SELECT id, topic, at FROM signals{_WHOSE} ORDER BY id", (owner, plugin))  # noqa: S608  # our own words
            found = [(int(number), str(topic), float(at)) for number, topic, at in rows]
        now = self._clock()
        if any(at < now - KEEP_S for _, _, at in found):
            self._pruned = 0.0
            with self._database.writing() as connection:
                self._prune(connection, now)
        return [(number, topic) for number, topic, at in found if at >= now - KEEP_S]

    def claim(self, number: int) -> Signal | None:
        """A signal, which waits no more; None where somebody else has it, in whichever process, or it is too old."""
        with self._database.writing() as connection:
            row = connection.execute(f"{_ROW} WHERE id = ?", (number,)).fetchone()
            _delete(connection, [number])
            found = None if row is None else _signal(row)
            if found is not None and found.at < self._clock() - KEEP_S:
                _drop(connection, found.owner, found.plugin, 1)
                found = None
        return found

    # dropping

    def drop(self, owner: str, plugin: str, numbers: Sequence[int] | None = None, *, gone: int = 0) -> int:
        """
        Drop these signals, or all that wait for a plugin, and count them; how many.

        ``gone`` more are counted that were taken and reached nobody.
        """
        self._database.renewed()
        with self._database.writing() as connection:
            if numbers is None:
                count = connection.execute(f"DELETE FROM signals{_WHOSE}", (owner, plugin)).rowcount  # noqa: S608  # our own words
            else:
                count = _delete(connection, numbers)
            if count + gone:
                _drop(connection, owner, plugin, count + gone)
        return int(count)

    def forget(self, plugin: str) -> None:
        """Forget all that waits for a plugin, of every owner, and what was dropped."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM signals WHERE plugin = ?", (plugin,))
            connection.execute("DELETE FROM queues WHERE plugin = ?", (plugin,))

    def erase(self, owner: str, plugin: str | None) -> int:
        """Forget all that waits for an owner, or for one of their plugins; how many."""
        with self._database.writing() as connection:
            connection.execute("PRAGMA secure_delete=ON")
            found = connection.execute(
                "DELETE FROM signals WHERE owner = ? AND (?2 IS NULL OR plugin = ?2)", (owner, plugin)
            )
        return int(found.rowcount)

    # looking

    def queues(self, owner: str | None = None) -> list[Queue]:
        """Every queue in which something waits or was dropped, by owner and plugin."""
        self._database.renewed()
        with self._database.reading() as connection:
            waiting = connection.execute(
                "SELECT owner, plugin, count(*), sum(length(data)), min(at) FROM signals"
                " WHERE ?1 IS NULL OR owner = ?1 GROUP BY owner, plugin",
                (owner,),
            ).fetchall()
            dropped = connection.execute(
                "SELECT owner, plugin, dropped FROM queues WHERE ?1 IS NULL OR owner = ?1", (owner,)
            ).fetchall()
        found = {(row[0], row[1]): Queue(owner=row[0], plugin=row[1], dropped=row[2]) for row in dropped}
        for whose, plugin, count, size, oldest in waiting:
            before = found.get((whose, plugin)) or Queue(owner=whose, plugin=plugin)
            found[whose, plugin] = msgspec.structs.replace(before, waiting=count, bytes=size, oldest=oldest)
        return [found[key] for key in sorted(found)]

    def close(self) -> None:
        """Close it; the next use opens it again."""
        self._database.close()

    def _prune(self, connection: sqlite3.Connection, now: float) -> None:
        """Drop what has waited too long, now and then."""
        # A clock that was put back must not keep this from being done.
        if 0 <= now - self._pruned < _PRUNE_S:
            return
        self._pruned = now
        old = connection.execute(
            "SELECT owner, plugin, count(*) FROM signals WHERE at < ? GROUP BY owner, plugin", (now - KEEP_S,)
        ).fetchall()
        for owner, plugin, count in old:
            _drop(connection, owner, plugin, count)
        connection.execute("DELETE FROM signals WHERE at < ?", (now - KEEP_S,))
        connection.execute("DELETE FROM causes WHERE at < ?", (now - _CAUSE_S,))


def _drop(connection: sqlite3.Connection, owner: str, plugin: str, count: int) -> None:
    connection.execute(
        "INSERT INTO queues VALUES (?, ?, ?3, ?3)"
        " ON CONFLICT DO UPDATE SET dropped = dropped + ?3, untold = untold + ?3",
        (owner, plugin, count),
    )


def _delete(connection: sqlite3.Connection, numbers: Sequence[int]) -> int:
    return sum(connection.execute("DELETE FROM signals WHERE id = ?", (number,)).rowcount for number in numbers)


def _signal(row: Sequence[Any]) -> Signal:
    return Signal(**dict(zip(Signal.__struct_fields__, row, strict=True)))


def _values(signal: Signal) -> tuple[object, ...]:
    return msgspec.structs.astuple(signal)
