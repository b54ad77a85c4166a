"""
Notes in one database file, with their full-text index: each change is one transaction over both.

A file belongs to one owner.  It holds the notes of one plugin, or those that plugins share for the owner; each note
says which plugin wrote it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastness.capabilities import _memory_query as query
from fastness.database import Database
from fastness.errors import Denied, QuotaExceeded
from fastness.limits import in_words
from fastness.runs import DenialCode

__all__ = ["INDEX", "NOTE_OVERHEAD", "Store", "size_of"]

#: Bytes that each note counts for beside its text and tags: about what its row and its place in the index take.
NOTE_OVERHEAD = 256
#: Notes that are ranked: the newest of those that fit.
_RANKED = 200
_PAGE = 200
_APPLICATION = 0x46_4E_4D_45  # FNME
_NOTES = """
CREATE TABLE notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, plugin TEXT NOT NULL, text TEXT NOT NULL, tags TEXT NOT NULL,
    made REAL NOT NULL, changed REAL NOT NULL, size INTEGER NOT NULL
)"""
_USED = "CREATE TABLE used (plugin TEXT PRIMARY KEY, notes INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID"
# The texts are in the table above, and not once more in the index.
_WORDS = """
CREATE VIRTUAL TABLE words USING fts5(
    text, tags, content='notes', content_rowid='id', tokenize='unicode61 remove_diacritics 2'
)"""
_STEPS = ((_NOTES, "CREATE INDEX notes_plugin ON notes (plugin)", _USED, _WORDS),)
INDEX = "INSERT INTO words (rowid, text, tags) VALUES (?, ?, ?)"
_UNINDEX = "INSERT INTO words (words, rowid, text, tags) VALUES ('delete', ?, ?, ?)"

Halt = Callable[[], object]


def size_of(text: str, tags: Sequence[str]) -> int:
    """What a note counts for."""
    return NOTE_OVERHEAD + sum(len(one.encode("utf-8", "surrogatepass")) for one in (text, *tags))


class Store:
    """
    The notes in the file ``path``.  Methods block, and raise ``sqlite3.Error``, ``OSError`` and BackendError where it
    cannot be used.  ``halt``, which those that change something take, is called before a change is committed, and
    what it raises undoes it.
    """

    def __init__(self, path: str, *, make: bool = True) -> None:
        self._database = Database(path, _STEPS, application=_APPLICATION, make=make)

    # changing

    def add(self, plugin: str, text: str, tags: Sequence[str], most: tuple[int, int], halt: Halt) -> int:
        """Keep a note; its number.  ``most`` are the plugin's notes and bytes.  Raises QuotaExceeded."""
        size, now, coded = size_of(text, tags), time.time(), _coded(tags)
        self._database.renewed()
        with self._database.writing() as connection:
            self._use(connection, plugin, 1, size, most)
            row = (plugin, text, coded, now, now, size)
            made = connection.execute("INSERT INTO notes VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)
            number = int(made.lastrowid or 0)
            connection.execute(INDEX, (number, text, coded))
            halt()
        return number

    def update(
        self,
        plugin: str,
        number: int,
        text: str | None,
        tags: Sequence[str] | None,
        most: tuple[int, int],
        halt: Halt,
    ) -> bool:
        """Change a note; False where there is none.  Raises QuotaExceeded, Denied for another plugin's."""
        self._database.renewed()
        with self._database.writing() as connection:
            found = self._own(connection, plugin, number)
            if found is None:
                return False
            old_text, old_tags, old_size = found
            new_text = old_text if text is None else text
            new_tags = query.decoded(old_tags) if tags is None else list(tags)
            size, coded = size_of(new_text, new_tags), _coded(new_tags)
            self._use(connection, plugin, 0, size - old_size, most)
            connection.execute(_UNINDEX, (number, old_text, old_tags))
            connection.execute(
                "UPDATE notes SET text = ?, tags = ?, changed = ?, size = ? WHERE id = ?",
                (new_text, coded, time.time(), size, number),
            )
            connection.execute(INDEX, (number, new_text, coded))
            halt()
        return True

    def delete(self, plugin: str, number: int, halt: Halt) -> bool:
        """Forget a note; False where there is none.  Raises Denied for another plugin's."""
        self._database.renewed()
        with self._database.writing() as connection:
            found = self._own(connection, plugin, number)
            if found is None:
                return False
            text, tags, size = found
            connection.execute(_UNINDEX, (number, text, tags))
            connection.execute("DELETE FROM notes WHERE id = ?", (number,))
            self._use(connection, plugin, -1, -size, (0, 0))
            halt()
        return True

    def erase(self, plugin: str | None = None) -> int:
        """
        Forget every note, or every one that a plugin wrote, so that no word of them is left in the file; how many.

        What readers of other processes still look at is left in the log beside it until the next use.
        """
        with self._database.writing() as connection:
            connection.execute("PRAGMA secure_delete=ON")
            where, values = ("", ()) if plugin is None else (" WHERE plugin = ?", (plugin,))
            count = connection.execute(f"DELETE FROM notes{where}", values).rowcount  # noqa: S608  # words of our own
            connection.execute(f"DELETE FROM used{where}", values)  # noqa: S608  # as above
            # Anew and whole: what is deleted from an index one by one stays in it until its parts are merged.
            connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
        with self._database.own_lock():
            ends = time.monotonic() + 1.0
            while not self._emptied() and time.monotonic() < ends:
                time.sleep(0.01)
        return int(count)

    def _emptied(self) -> bool:
        row = self._database.read("PRAGMA wal_checkpoint(TRUNCATE)", ())
        return row is None or not row[0]

    # looking

    def get(self, number: int) -> dict[str, Any] | None:
        """A note, or None."""
        self._database.renewed()
        row = self._database.read("SELECT id, plugin, text, tags, made, changed FROM notes WHERE id = ?", (number,))
        return None if row is None else _note(row)

    def search(self, words: Sequence[str], tags: Sequence[str], limit: int, *, either: bool) -> tuple[list[Any], bool]:
        """Notes that fit, the best first among the newest, and whether there are more.  Without words, the newest."""
        match = query.match_of(words, tags, either=either)
        return self._found(match, limit, words, 1 << 62)

    def newest(self, tags: Sequence[str], before: int, limit: int) -> tuple[list[Any], bool]:
        """Notes with all of the tags and a number below ``before``, the newest first; and whether there are more."""
        return self._found(query.match_of((), tags, either=False), limit, (), before)

    def _found(self, match: str, limit: int, words: Sequence[str], before: int) -> tuple[list[Any], bool]:
        self._database.renewed()
        columns = f"notes.id, notes.plugin, substr(notes.text, 1, {query.LOOKED_AT}), notes.tags, notes.made"
        most = max(_RANKED, limit) if words else limit
        with self._database.reading() as connection:
            if match:
                # By number, which the index is ordered by: sorting all that fit by their worth takes longer than a
                # guest should wait, where a word is in every note.
                statement = (
                    f"SELECT {columns} FROM words JOIN notes ON notes.id = words.rowid"  # noqa: S608  # words of our own
                    " WHERE words MATCH ? AND words.rowid < ? ORDER BY words.rowid DESC LIMIT ?"
                )
                rows = connection.execute(statement, (match, before, most + 1)).fetchall()
            else:
                statement = f"SELECT {columns} FROM notes WHERE id < ? ORDER BY id DESC LIMIT ?"  # noqa: S608  # as above
                rows = connection.execute(statement, (before, most + 1)).fetchall()
        more = len(rows) > limit
        rows = rows[:most]
        chosen = query.best([row[2] for row in rows], words, limit) if words else range(min(limit, len(rows)))
        return [_shown(rows[place], words) for place in chosen], more

    def used(self, plugin: str) -> tuple[int, int]:
        """How many notes of a plugin there are, and bytes."""
        row = self._database.read("SELECT notes, bytes FROM used WHERE plugin = ?", (plugin,))
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def everything(self, plugin: str | None = None) -> Iterator[dict[str, Any]]:
        """All notes by number, a page at a time; of one plugin, where it is named."""
        last = 0
        while True:
            with self._database.reading() as connection:
                rows = connection.execute(
                    "SELECT id, plugin, text, tags, made, changed FROM notes"
                    " WHERE id > ? AND (?2 IS NULL OR plugin = ?2) ORDER BY id LIMIT ?3",
                    (last, plugin, _PAGE),
                ).fetchall()
            yield from map(_note, rows)
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def close(self) -> None:
        """Close it; the next use opens it again."""
        self._database.close()

    # how

    @staticmethod
    def _own(connection: sqlite3.Connection, plugin: str, number: int) -> tuple[str, str, int] | None:
        row = connection.execute("SELECT plugin, text, tags, size FROM notes WHERE id = ?", (number,)).fetchone()
        if row is None:
            return None
        if row[0] != plugin:
            raise Denied(DenialCode.READ_ONLY, str(number))
        return str(row[1]), str(row[2]), int(row[3])

    @staticmethod
    def _use(connection: sqlite3.Connection, plugin: str, notes: int, size: int, most: tuple[int, int]) -> None:
        row = connection.execute("SELECT notes, bytes FROM used WHERE plugin = ?", (plugin,)).fetchone() or (0, 0)
        count, total = int(row[0]) + notes, int(row[1]) + size
        if notes > 0 and count > most[0]:
            raise QuotaExceeded(f"no more than {most[0]} notes may be kept; delete some")
        if size > 0 and total > most[1]:
            raise QuotaExceeded(f"no more than {in_words(most[1])} may be kept; delete some notes")
        connection.execute("INSERT OR REPLACE INTO used VALUES (?, ?, ?)", (plugin, count, total))


def _coded(tags: Sequence[str]) -> str:
    return " ".join(map(query.coded, dict.fromkeys(tags)))


def _note(row: Sequence[Any]) -> dict[str, Any]:
    number, plugin, text, tags, made, changed = row
    return {
        "id": number,
        "plugin": plugin,
        "text": text,
        "tags": query.decoded(tags),
        "made": made,
        "changed": changed,
    }


def _shown(row: Sequence[Any], words: Sequence[str]) -> dict[str, Any]:
    number, plugin, text, tags, made = row
    return {
        "id": number,
        "plugin": plugin,
        "excerpt": query.excerpt(text, words),
        "tags": query.decoded(tags),
        "made": made,
    }
