"""
How many effects integrations had for each plugin and owner today: taken, on disk, before there is one.

What a process took that died stays taken, as nobody knows whether it had its effect.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from fastness.database import Database, failed
from fastness.errors import QuotaExceeded

__all__ = ["Counts"]

_APPLICATION = 0x46_4E_49_4E  # FNIN
_DAY_S = 86_400
_TAKEN = """
CREATE TABLE taken (
    plugin TEXT NOT NULL, owner TEXT NOT NULL, day INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (plugin, owner, day)
) WITHOUT ROWID"""
#: Days that are kept, for a clock that is set back.
_KEPT = 7


class Counts:
    """
    Counts in the database file ``path``; its folder exists and is private to this user.

    Any thread and any number of processes may use it.  Methods raise BackendError where it cannot be read or written:
    then nothing was taken, or given back.
    """

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._database = Database(path, ((_TAKEN,),), application=_APPLICATION)

    def take(self, plugin: str, owner: str, count: int, most: int) -> int:
        """
        Take so many of ``most`` a day; the day that they were taken of, in days since 1970 of UTC.

        It is on disk on return.  Raises QuotaExceeded, in words fit for a guest, where fewer are left.
        """
        day = int(self._clock() // _DAY_S)
        try:
            self._database.renewed()
            with self._database.writing(sync=True) as connection:
                connection.execute("DELETE FROM taken WHERE day < ?", (day - _KEPT,))
                found = connection.execute(
                    "SELECT count FROM taken WHERE plugin = ? AND owner = ? AND day = ?", (plugin, owner, day)
                ).fetchone()
                if (int(found[0]) if found else 0) + count > most:
                    raise QuotaExceeded(f"no more than {most} a day, and fewer than {count} are left")
                connection.execute(
                    "INSERT INTO taken VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                    (plugin, owner, day, count),
                )
        except (sqlite3.Error, OSError) as error:
            raise failed("taking from what may be done", self.path, error) from error
        return day

    def give_back(self, plugin: str, owner: str, count: int, day: int) -> None:
        """What was taken had no effect."""
        try:
            self._database.renewed()
            with self._database.writing() as connection:
                connection.execute(
                    "UPDATE taken SET count = max(count - ?, 0) WHERE plugin = ? AND owner = ? AND day = ?",
                    (count, plugin, owner, day),
                )
        except (sqlite3.Error, OSError) as error:
            raise failed("giving back what had no effect", self.path, error) from error

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        self._database.close()
