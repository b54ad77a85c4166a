"""
Whether an audit trail is as it was written, and where it is not.

What is found without the key's help of an attacker: each record that was edited, each gap, each record that was moved.
Whoever has the key can seal records anew: one of them still does not fit its neighbours, but a tail that was sealed
anew as a whole does, and so does a trail whose tail was cut off.  Both show only against an anchor, the number and hash
of a record that was kept elsewhere.
"""

from __future__ import annotations

import enum
import re
import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from fastness import owed
from fastness.audit import keys, schema
from fastness.audit.record import FIELDS, GENESIS, Sealer
from fastness.database import broken, failed
from fastness.errors import BackendError, ConfigurationError

__all__ = ["Anchor", "Damage", "Kind", "Verdict", "anchor", "examine", "verify"]

#: Damages that are named; the rest is counted.
_NAMED = 1000
#: Records that do not fit, among which moved ones are looked for: each is tried with each one's number.
_MOVED = 200

_SEQ, _PHASE, _PREV, _HASH = (FIELDS.index(name) for name in ("seq", "phase", "prev_hash", "hash"))


class Kind(enum.StrEnum):
    """What was done to a trail.  Closed."""

    #: The record is not as it was sealed; or it was never sealed with this key.
    EDITED = "edited"
    #: Records are missing before one that is there.
    REMOVED = "removed"
    #: The record was written with another number.
    MOVED = "moved"
    #: The record was sealed with the key and does not follow the one before it.
    RESEALED = "resealed"
    #: Records up to the anchor are missing at the end.
    CUT = "cut"
    #: The record that the anchor was taken of is another one now.
    REPLACED = "replaced"
    #: The record that the anchor was taken of was pruned; nothing can be said.
    PRUNED = "pruned"
    #: No record fits the key.
    KEY = "key"
    #: The file itself is damaged, so that not all records could be read.
    FILE = "file"
    #: The database holds a table or trigger that is not ours, or lacks one.
    SCHEMA = "schema"


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record by number and hash; as text, ``NUMBER:HASH``.  That of an empty trail is number 0."""

    seq: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Anchor:
        """Read what was printed.  Raises ConfigurationError."""
        match = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text.strip())
        if match is None:
            raise ConfigurationError("--head", text, "what fastness audit anchor printed: NUMBER:HASH")
        return cls(int(match[1]), match[2])


class Damage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that was done: to the records ``first`` to ``last``, in words ``what``."""

    kind: Kind
    first: int
    last: int
    what: str


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What was found: ``records`` that were looked at, from ``first`` on, the ``head``, and each damage.

    ``more`` is how many damages are not listed.  ``pruned`` is the number up to which a checkpoint stands for them.
    """

    records: int = 0
    first: int = 0
    pruned: int = 0
    head: Anchor = Anchor()
    damages: tuple[Damage, ...] = ()
    more: int = 0

    @property
    def whole(self) -> bool:
        """Whether nothing was found."""
        return not self.damages


def anchor(path: str) -> Anchor:
    """The head of the trail at ``path``, to be kept elsewhere.  Raises BackendError."""
    owed.settle()
    try:
        with schema.database(path).reading() as connection:
            return Anchor(*(schema.head(connection) or ()))
    except (sqlite3.Error, OSError) as error:
        raise failed("reading the audit trail", path, error) from error


def verify(path: str, key: str, head: Anchor | None = None) -> Verdict:
    """
    Look at every record of the trail at ``path``, as it is at one moment, with the key in the file ``key``.

    Raises BackendError where the database or the key cannot be read.
    """
    owed.settle()
    secret = keys.load(key)
    if secret is None:
        raise BackendError("verifying the audit trail", f"the key {key} is not there", "put it back")
    database = schema.database(path)
    try:
        with database.reading() as connection:
            more = [Damage(Kind.SCHEMA, 0, 0, f"the database: {name}") for name in schema.foreign(connection)]
            try:
                look = _walk(connection, secret, head)
            except sqlite3.OperationalError:
                # A text that is no UTF-8, as no record has it.  Reading with an eye to that takes twice as long.
                schema.tolerant(connection)
                look = _walk(connection, secret, head)
            if look.stopped:
                more.append(
                    Damage(Kind.FILE, look.reached, look.reached, f"after record {look.reached}: {look.stopped}")
                )
    except (sqlite3.Error, OSError) as error:
        if broken(error):
            return Verdict(damages=(Damage(Kind.FILE, 0, 0, f"the database: {error}"),))
        raise failed("reading the audit trail", path, error) from error
    finally:
        database.close()
    found = look.verdict()
    return msgspec.structs.replace(found, damages=(*more, *found.damages)) if more else found


def _walk(connection: sqlite3.Connection, key: bytes, head: Anchor | None) -> _Look:
    """Look at all rows that can be read, in the order of their numbers, which is that of the table."""
    look = _Look(key, head)
    try:
        for row in connection.execute(f"{schema.SELECT} ORDER BY seq"):
            look.at(row)
    except sqlite3.DatabaseError as error:
        if not broken(error):
            raise
        look.stopped = str(error)
    return look


def examine(rows: Iterable[tuple[Any, ...]], key: bytes, head: Anchor | None = None) -> Verdict:
    """As :func:`verify`, of rows in the order of their numbers."""
    look = _Look(key, head)
    for row in rows:
        look.at(row)
    return look.verdict()


class _Look:
    """One walk along the chain."""

    def __init__(self, key: bytes, head: Anchor | None) -> None:
        self._sealer = Sealer(key)
        self._head = head
        self._of_head: str | None = None
        self._records = 0
        self._first = 0
        self._pruned: Anchor | None = None
        self._last = Anchor()
        self._last_fits = True
        self._gaps: list[tuple[int, int]] = []
        self._bad: list[tuple[Any, ...]] = []
        self._bad_count = 0
        self._resealed: list[int] = []
        #: Why not all rows could be read.
        self.stopped = ""

    def at(self, row: tuple[Any, ...]) -> None:
        typed = tuple(map(type, row)) == schema.TYPES
        if type(row[_SEQ]) is not int:
            # The column has been made one that is not the table's key: a record's place is all the number that it has.
            row = (self._last.seq + 1, *row[1:])
        seq, previous, hash_ = row[_SEQ], row[_PREV], row[_HASH]
        fits = typed and self._sealer.fits(row)
        self._records += 1
        if self._records == 1:
            self._first = seq
            if fits and row[_PHASE] == "checkpoint":
                # It stands for all up to its number: what follows, follows the last of those.
                self._pruned = self._last = Anchor(seq, previous)
                return
        if seq > self._last.seq + 1:
            self._gaps.append((self._last.seq + 1, seq - 1))
        elif fits and self._last_fits and previous != self._last.hash:
            self._resealed.append(seq)
        if fits and row[_PHASE] == "checkpoint":
            # A checkpoint of an earlier time, put where it does not stand for all that was before.
            fits = False
        if not fits:
            self._bad_count += 1
            if len(self._bad) < max(_NAMED, _MOVED):
                self._bad.append(row)
        if self._head is not None and seq == self._head.seq:
            self._of_head = str(hash_)
        self._last, self._last_fits = Anchor(seq, str(hash_)), fits

    @property
    def reached(self) -> int:
        """The number of the last record that was looked at."""
        return self._last.seq

    def verdict(self) -> Verdict:
        damages = self._damages()
        named = sorted(damages, key=lambda damage: (damage.first, damage.last))[:_NAMED]
        return Verdict(
            records=self._records,
            first=self._first,
            pruned=self._pruned.seq if self._pruned is not None else 0,
            head=self._last,
            damages=tuple(named),
            more=len(damages) - len(named) + self._bad_count - len(self._bad),
        )

    def _damages(self) -> list[Damage]:
        if self._records > 1 and self._bad_count == self._records:
            what = "no record fits the key: it is another trail's, or every record was edited"
            return [Damage(Kind.KEY, self._first, self._last.seq, what), *self._of_anchor()]
        moved = self._moved()
        found = [_bad(row, moved) for row in self._bad]
        gone = set(moved.values())
        for first, last in self._gaps:
            if not (first == last and first in gone):
                found.append(Damage(Kind.REMOVED, first, last, f"{_records(first, last)} removed"))
        for seq in self._resealed:
            what = f"record {seq} does not follow record {seq - 1}: one of the two was sealed anew with the key"
            found.append(Damage(Kind.RESEALED, seq - 1, seq, what))
        return [*found, *self._of_anchor()]

    def _moved(self) -> dict[int, int]:
        """For each record that fits under another number, that number."""
        numbers = [row[_SEQ] for row in self._bad[:_MOVED]]
        for first, last in self._gaps:
            numbers.extend(range(first, min(last + 1, first + _MOVED)))
        numbers = numbers[: 2 * _MOVED]
        found = {}
        for row in self._bad[:_MOVED]:
            if tuple(map(type, row)) != schema.TYPES:
                continue
            for number in numbers:
                if number != row[_SEQ] and self._sealer.fits((*row[:_SEQ], number, *row[_SEQ + 1 :])):
                    found[row[_SEQ]] = number
                    break
        return found

    def _of_anchor(self) -> list[Damage]:
        head = self._head
        if head is None or (head.seq == 0 and head.hash == GENESIS):
            return []
        if head.seq > self._last.seq:
            first = self._last.seq + 1
            return [Damage(Kind.CUT, first, head.seq, f"{_records(first, head.seq)} cut off the end")]
        if self._pruned is not None and head.seq <= self._pruned.seq:
            if head == self._pruned:
                return []
            if head.seq < self._pruned.seq:
                what = f"record {head.seq} was pruned, so the anchor proves nothing: take a newer one"
                return [Damage(Kind.PRUNED, head.seq, head.seq, what)]
        elif self._of_head == head.hash or self._of_head is None:
            # Where it is missing in the middle, that is named already.
            return []
        what = f"record {head.seq} is not the one that the anchor was taken of: what follows was written anew"
        return [Damage(Kind.REPLACED, head.seq, self._last.seq, what)]


def _bad(row: tuple[Any, ...], moved: dict[int, int]) -> Damage:
    seq = row[_SEQ]
    if seq in moved:
        return Damage(Kind.MOVED, seq, seq, f"record {seq} is what was record {moved[seq]}")
    if row[_PHASE] == "checkpoint":
        return Damage(Kind.EDITED, seq, seq, f"record {seq} is a checkpoint that stands for nothing here")
    return Damage(Kind.EDITED, seq, seq, f"record {seq} was edited, or was not written by Fastness")


def _records(first: int, last: int) -> str:
    return f"record {first} was" if first == last else f"records {first} to {last} were"
