"""
The audit trail: what is about to happen is committed before it does, and how it ended after.

A committed record survives the death of this process, however sudden.  One that was synced, and all before it, survives
a loss of power too.  Several processes append to one trail; threads of one process that append at once share a commit.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections import deque
from typing import Any

import msgspec

from fastness.audit import keys, schema, writers
from fastness.audit.record import GENESIS, KILLED, About, AuditRecord, Sealer, clean, cleaned, number, texts_of
from fastness.database import failed
from fastness.errors import BackendError, FastnessError
from fastness.runs import DenialCode

__all__ = ["AuditLog", "AuditLogClosed"]

_STEP = "writing the audit trail"
#: Records of one commit.
_TOGETHER = 256
#: How many of a record's values say what it is about.
_ABOUT = 6
#: The others of an intent.
_ANNOUNCED = ("intent", "allowed", "", 0, 0, 0, 0, 0, 0)
#: Outcomes, and what else has happened, that wait for the next commit because theirs failed.
_LATE = 4096
#: Codes that say that it was refused before any effect; what was refused later has another code.
_REFUSALS = frozenset(code.value for code in DenialCode)


class AuditLogClosed(BackendError):
    """The trail was closed; nothing more can be recorded, and so nothing more may happen."""


class _Draft:
    """
    A record that is to be: ``values`` are those of its fields from ``run`` to ``intent``.

    ``closes`` is the intent whose outcome it is, ``opens`` says that one is to come.  With ``keep`` it has happened,
    and is written later where it cannot be now.
    """

    __slots__ = ("closes", "done", "error", "keep", "opens", "row", "sync", "values")

    def __init__(self, values: tuple[Any, ...], sync: bool, opens: bool, closes: int, keep: bool) -> None:
        self.values = values
        self.sync = sync
        self.opens = opens
        self.closes = closes
        self.keep = keep or closes != 0
        self.done = False
        self.row: tuple[Any, ...] = ()
        self.error: FastnessError | None = None


class AuditLog:
    """
    The trail in the database file ``path``, sealed with the key in the file ``key``.

    The folders of both must exist and be private to this user.  Nothing is opened or made before the first record.
    Any thread may use it; it never waits longer than ``patience_s`` for other processes.  Where a record cannot be
    written (another process holds the database, the disk is full) BackendError is raised: then what it announces must
    not happen.
    """

    def __init__(self, path: str, key: str, *, patience_s: float = 2.0) -> None:
        self.path = path
        self.key = key
        self._database = schema.database(path, patience_s=patience_s, make=True)
        self._writers = os.path.join(os.path.dirname(path), "audit-writers")
        self._turn = threading.Lock()
        self._queue: deque[_Draft] = deque()
        self._late: deque[_Draft] = deque(maxlen=_LATE)
        self._writer: writers.Writer | None = None
        self._sealer = Sealer(b"")
        #: Number and hash of the last record, where this process wrote it.
        self._head: tuple[int, str] | None = None
        #: Intents of this process that have no outcome yet, and what they are about.
        self._waiting: dict[int, tuple[Any, ...]] = {}
        #: What was recorded last, and what its record says of it.
        self._last: tuple[About | None, tuple[str, ...]] = (None, ())
        self._pid = os.getpid()
        self._closed = False

    # fastness.broker.trail.Trail

    def intend(self, about: About) -> int:
        """Record what is about to happen; the record's number.  Committed on return, and synced where it ``leaves``."""
        return int(self._append(self._of(about) + _ANNOUNCED, sync=about.leaves, opens=True)[0])

    def done(
        self,
        of: int,
        about: About,
        *,
        code: str = "",
        micros: int = 0,
        bytes_in: int = 0,
        bytes_out: int = 0,
        cost: int = 0,
        dropped: int = 0,
    ) -> None:
        """
        Record how what was announced by the record of this number has ended.

        Where that fails, BackendError is raised, and the outcome is kept and written before the next record.
        """
        values = self._of(about) + _outcome(of, code, micros, bytes_in, bytes_out, cost, dropped)
        self._append(values, closes=of)

    def intend_at_once(self, about: About) -> int | None:
        """As :meth:`intend` for what does not leave; None, and nothing recorded, where that would wait for others."""
        row = self._append_at_once(self._of(about) + _ANNOUNCED, opens=True)
        return None if row is None else int(row[0])

    def done_at_once(
        self,
        of: int,
        about: About,
        *,
        code: str = "",
        micros: int = 0,
        bytes_in: int = 0,
        bytes_out: int = 0,
        cost: int = 0,
        dropped: int = 0,
    ) -> bool:
        """As :meth:`done`; False, and nothing recorded, where that would wait for others."""
        values = self._of(about) + _outcome(of, code, micros, bytes_in, bytes_out, cost, dropped)
        return self._append_at_once(values, closes=of) is not None

    def refused(self, about: About, *, code: str) -> None:
        """Record what was refused, and did not happen."""
        self._append((*self._of(about), "intent", "refused", clean(code), 0, 0, 0, 0, 0, 0))

    # of the host itself

    def event(
        self,
        *,
        op: str,
        run: str = "",
        plugin: str = "",
        owner: str = "",
        capability: str = "",
        target: str = "",
        decision: str = "allowed",
        code: str = "",
        sync: bool = False,
        keep: bool = False,
    ) -> AuditRecord:
        """
        Record what stands for itself: a grant, a revocation, an install, a tier that was changed, a violation.

        With ``keep`` it has happened: where BackendError is raised it is kept, as outcomes are.
        """
        texts = cleaned((run, plugin, owner, capability, op, target, decision, code))
        values = (*texts[:_ABOUT], "event", *texts[_ABOUT:], 0, 0, 0, 0, 0, 0)
        return schema.record_of(self._append(values, sync=sync, keep=keep))

    def settle(self) -> None:
        """Write what was kept for later, where that can be done by now."""
        with self._turn:
            self._settle()

    def _settle(self) -> None:
        if self._late and self._pid == os.getpid():
            self._commit()

    def close(self) -> None:
        """No more records; those that were kept for later are written now, or a warning says how many are lost."""
        with self._turn:
            self._settle()
            if self._late and self._pid == os.getpid():
                lost = "%d records of what was done could not be written to %s"
                logging.getLogger("fastness").warning(lost, len(self._late), self.path)
                self._late.clear()
            self._closed = True
            self._resign()
            self._database.close()

    # how

    def _resign(self) -> None:
        if self._writer is not None and self._pid == os.getpid():
            if self._waiting:
                # Its file stays, and its lock goes: the next start closes what it owes.
                self._writer.leave()
            else:
                self._writer.close()
        self._writer = None

    def _of(self, about: About) -> tuple[str, ...]:
        """What a record says of what it is about.  An outcome is mostly of what the intent just before it was of."""
        known, texts = self._last
        if known is not about:
            texts = texts_of(about)
            self._last = about, texts
        return texts

    def _append(
        self, values: tuple[Any, ...], *, sync: bool = False, opens: bool = False, closes: int = 0, keep: bool = False
    ) -> tuple[Any, ...]:
        row = self._append_at_once(values, sync=sync, opens=opens, closes=closes)
        if row is not None:
            return row
        if self._pid != os.getpid():
            self._in_child()
        draft = _Draft(values, sync, opens, closes, keep)
        self._queue.append(draft)
        with self._turn:
            # Whoever has the turn writes for all who wait for it.
            while not draft.done:
                self._commit()
        if draft.error is not None:
            raise draft.error
        return draft.row

    def _append_at_once(
        self, values: tuple[Any, ...], *, sync: bool = False, opens: bool = False, closes: int = 0
    ) -> tuple[Any, ...] | None:
        """
        Write a record as the one after the last of this process, in one statement: half as long as a transaction.

        None, and nothing written, where another process wrote meanwhile, or anything else is in the way: whether that
        is an error is told by the long way, which waits for others.
        """
        if self._pid != os.getpid() or not self._turn.acquire(blocking=False):
            return None
        try:
            if self._head is None or self._writer is None or self._late or self._queue or self._closed:
                return None
            if closes and self._waiting.get(closes) != values[:_ABOUT]:
                return None
            seq, previous = self._head
            row = self._row(seq + 1, previous, values)
            # Until it is known to be there, what the last record is is not known either.
            self._head = None
            try:
                # Where the file was removed since, the record that an outcome is the end of is gone with it.
                done = self._database.once(
                    schema.FOLLOW, (*row[:-2], seq, previous, row[-1]), sync=sync, unlooked=closes > 0
                )
            except (sqlite3.Error, OSError):
                return None
            if not done:
                return None
            self._head = (seq + 1, row[-1])
            if opens:
                self._waiting[seq + 1] = values[:_ABOUT]
            elif closes:
                del self._waiting[closes]
            return row
        finally:
            self._turn.release()

    def _in_child(self) -> None:
        # Threads that waited, and the turn that one of them had, are the parent's.
        self._turn, self._pid = threading.Lock(), os.getpid()
        self._queue.clear()
        self._late.clear()
        self._waiting.clear()
        self._head = None
        if self._writer is not None:
            self._writer.leave()
            self._writer = None

    def _commit(self) -> None:
        drafts = list(self._late)
        late = len(drafts)
        while self._queue and len(drafts) < _TOGETHER + late:
            drafts.append(self._queue.popleft())
        error: FastnessError | None = None
        try:
            if self._closed:
                raise AuditLogClosed(_STEP, "the trail was closed", "keep it open for as long as runs go on")
            if self._database.renewed() or self._writer is None:
                self._begin()
            self._write(drafts)
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as caught:
            error = failed(_STEP, self.path, caught)
            error.__cause__ = caught
        except FastnessError as caught:
            error = caught
        except BaseException:
            error = BackendError(_STEP, "it was interrupted")
            raise
        finally:
            if late and error is None:
                self._late.clear()
            for draft in drafts[late:]:
                if error is not None and draft.error is None:
                    draft.error = error
                    if draft.keep:
                        self._late.append(draft)
                draft.done = True

    def _write(self, drafts: list[_Draft]) -> None:
        opened: dict[int, tuple[Any, ...]] = {}
        closed: set[int] = set()
        self._head = None
        sync = False
        for draft in drafts:
            sync = sync or draft.sync
        with self._database.writing(sync=sync) as connection:
            seq, previous = schema.head(connection) or (0, GENESIS)
            for draft in drafts:
                if draft.closes:
                    if draft.closes in closed or self._waiting.get(draft.closes) != draft.values[:_ABOUT]:
                        cause = f"record {draft.closes} is no intent that waits for its outcome"
                        draft.error = BackendError(_STEP, cause, "leave data/audit.db where it is while runs go on")
                        continue
                    closed.add(draft.closes)
                seq += 1
                draft.row = self._insert(connection, seq, previous, draft.values)
                previous = draft.row[-1]
                if draft.opens:
                    opened[seq] = draft.values[:_ABOUT]
        self._head = (seq, previous)
        self._waiting.update(opened)
        for number_of in closed:
            del self._waiting[number_of]

    def _insert(
        self, connection: sqlite3.Connection, seq: int, previous: str, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        row = self._row(seq, previous, values)
        connection.execute(schema.INSERT, row)
        return row

    def _row(self, seq: int, previous: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        assert self._writer is not None
        # To the microsecond: ``round`` takes longer than the seal.
        row = (seq, int(time.time() * 1e6) / 1e6, *values, self._writer.name, previous)
        return (*row, self._sealer.seal(row))

    def _begin(self) -> None:
        """The start of this process as a writer: what dead ones owe is written for them."""
        with self._database.writing() as connection:
            schema.tolerant(connection)
            strange = schema.foreign(connection)
            if strange:
                raise self._damaged(f"it holds what is not ours: {', '.join(strange)[:200]}")
            last = connection.execute(f"{schema.SELECT} ORDER BY seq DESC LIMIT 1").fetchone()
            found = keys.load(self.key)
            if found is None and last is not None:
                raise BackendError(
                    _STEP,
                    f"the key {self.key} is gone",
                    f"put it back; without it, move {self.path} away to begin a new trail",
                )
            self._sealer = Sealer(found if found is not None else keys.load_or_make(self.key))
            if last is not None and not self._sealer.fits(last):
                raise self._damaged("its last record does not fit the key")
            self._resign()
            self._waiting.clear()
            self._writer = writers.Writer(self._writers, last[0] if last is not None else 0)
            gone = writers.dead(self._writers)
            for name, since in gone.items():
                self._close_for(connection, name, since)
        for name in gone:
            writers.bury(self._writers, name)

    def _damaged(self, why: str) -> BackendError:
        return BackendError(
            _STEP,
            f"{self.path} is damaged: {why}",
            "run: fastness audit verify; then move the file away, with its -wal and -shm, and keep it",
        )

    def _close_for(self, connection: sqlite3.Connection, name: str, since: int) -> None:
        """Write the outcomes that a dead writer owes."""
        seq, previous = schema.head(connection) or (0, GENESIS)
        owed = connection.execute(
            f"{schema.SELECT} WHERE seq>? AND writer=? AND seq IN ({schema.WAITING}) ORDER BY seq", (since, name)
        )
        for intent in owed.fetchall():
            seq += 1
            # What it was about, from ``run`` to ``target``.
            values = (*intent[2 : 2 + _ABOUT], "outcome", "allowed", KILLED, 0, 0, 0, 0, 0, intent[0])
            previous = self._insert(connection, seq, previous, values)[-1]


def _outcome(of: int, code: str, *counts: int) -> tuple[Any, ...]:
    decision = "refused" if code in _REFUSALS else "allowed"
    return "outcome", decision, clean(code), *map(number, counts), of
