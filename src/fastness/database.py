"""
Embedded databases: one file of this user, in SQLite's write-ahead log, that several processes share.

In write-ahead mode (sqlite.org/wal.html) a commit is one append to a file: it survives the death of this process as
soon as it returns, and a loss of power where it was synced.  Readers do not stop writers.  Writers take turns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from fastness.errors import BackendError

__all__ = ["Database", "Steps", "broken", "busy", "cramped", "failed", "full"]

#: The statements of each version of a schema, oldest first: a database of version N has had the first N of them.
Steps = Sequence[Sequence[str]]

#: Connections that a process had when it forked.  The child neither uses nor closes them: closing might end the
#: write-ahead log under its parent.
_of_parents: list[sqlite3.Connection] = []
_making = threading.Lock()


def _code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def busy(error: BaseException) -> bool:
    """Whether another writer held the database for all of our patience."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def full(error: BaseException) -> bool:
    """Whether there is no more room on the device."""
    return _code(error) == sqlite3.SQLITE_FULL


def cramped(error: BaseException | None) -> bool:
    """
    Whether more room on the device may help: there is none, or a file beside the database could not be made or grown.
    """
    if error is None:
        return False
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


def broken(error: BaseException) -> bool:
    """Whether the file is no database, or not a whole one."""
    return _code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def failed(step: str, path: str, error: BaseException) -> BackendError:
    """What went wrong with the database at ``path``, and what to do."""
    if busy(error):
        hint = "another process holds it: find out which and let it end"
    elif full(error) or _code(error) == sqlite3.SQLITE_IOERR:
        hint = "free space on the device that it is on"
    elif broken(error):
        hint = "the file is damaged: move it away, with its -wal and -shm, and keep it"
    else:
        hint = "make the file, and its folder, readable and writable for this user alone"
    return BackendError(step, f"{path}: {error}", hint)


class _Writing:
    """The block of :meth:`Database.writing`.  A class of its own, since a generator takes as long as the insert."""

    __slots__ = ("_connection", "_database", "_lock", "_sync")

    def __init__(self, database: Database, sync: bool) -> None:
        self._database = database
        self._sync = sync

    def __enter__(self) -> sqlite3.Connection:
        self._lock = self._database.own_lock()
        self._lock.acquire()
        try:
            self._connection = self._database.begin(self._sync)
        except BaseException:
            self._lock.release()
            raise
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            try:
                if kind is None:
                    self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        finally:
            self._lock.release()


class Database:
    """
    One database file.  Any thread may use it; after a fork the child opens it anew.

    ``path`` is a file in a folder that exists and is private to this user; it is made with mode 0600.  ``steps`` are
    the schema.  ``application`` is a number that tells our files from others (``PRAGMA application_id``).
    ``patience_s`` is how long to wait for another writer.  Without ``make`` a missing file is not made.

    Nothing is opened before the first use.  Everything raises ``sqlite3.Error`` or ``OSError``, which :func:`failed`
    turns into a BackendError; opening raises BackendError where the file is not ours.
    """

    def __init__(
        self, path: str, steps: Steps, *, application: int, patience_s: float = 2.0, make: bool = True
    ) -> None:
        self.path = path
        self._steps = steps
        self._application = application
        self._patience_s = patience_s
        self._make = make
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._synced = False
        self._waits = True
        self._mark = -1

    def writing(self, *, sync: bool = False) -> _Writing:
        """
        A transaction that writes: all of it is committed when the block ends, or none where it raises.

        With ``sync`` it is on disk by then, and so is all that was committed before.
        """
        return _Writing(self, sync)

    def once(self, statement: str, values: tuple[object, ...], *, sync: bool = False, unlooked: bool = False) -> bool:
        """
        One statement that writes, as a transaction of its own; as :meth:`writing` otherwise.

        Quicker by three statements than a transaction around it.  Where another writer is at it, it does not wait.
        False, and nothing done, where the file would have to be opened, as :meth:`renewed` says; ``unlooked``, also
        where the file was removed, while it is open.
        """
        if self._pid != os.getpid():
            return False
        with self._lock:
            connection = self._connection
            if connection is None or not (unlooked or os.fstat(self._mark).st_nlink):
                return False
            if self._waits or sync is not self._synced:
                self._ready(sync, wait=False)
            connection.execute(statement, values)
        return True

    def read(self, query: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        """The first row of one query, which sees the database as it is when it begins; quicker than :meth:`reading`."""
        with self.own_lock():
            found: tuple[Any, ...] | None = (self._connection or self._open()).execute(query, values).fetchone()
            return found

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database as it is at the first statement of the block, whoever writes meanwhile."""
        with self.own_lock():
            connection = self._connection or self._open()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def renewed(self) -> bool:
        """
        Whether the next use opens the file: at first, in a child, and where the file was removed meanwhile.

        What is written to a file without a name is lost, so those who write ask before.
        """
        if self._pid != os.getpid():
            return True
        with self._lock:
            if self._connection is not None:
                if os.fstat(self._mark).st_nlink:
                    return False
                self.close()
            return True

    def close(self) -> None:
        """Close what is open; the next use opens it again."""
        if self._pid != os.getpid():
            return
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
                os.close(self._mark)

    def begin(self, sync: bool) -> sqlite3.Connection:
        """Begin to write; whoever does has the lock, and ends it."""
        connection = self._ready(sync)
        connection.execute("BEGIN IMMEDIATE")
        return connection

    def _ready(self, sync: bool, wait: bool = True) -> sqlite3.Connection:
        connection = self._connection or self._open()
        if wait is not self._waits:
            connection.execute(f"PRAGMA busy_timeout={round(self._patience_s * 1000) if wait else 0}")
            self._waits = wait
        if sync is not self._synced:
            connection.execute("PRAGMA synchronous=FULL" if sync else "PRAGMA synchronous=NORMAL")
            self._synced = sync
        return connection

    def own_lock(self) -> threading.RLock:
        """The lock of this process: a child has its own."""
        if self._pid != os.getpid():
            # Another thread of the parent may have held the lock when this process was made.
            self._lock, self._pid = threading.RLock(), os.getpid()
            if self._connection is not None:
                _of_parents.append(self._connection)
                self._connection = None
                os.close(self._mark)
        return self._lock

    def _open(self) -> sqlite3.Connection:
        _check(self.path, make=self._make)
        connection = sqlite3.connect(
            self.path, timeout=self._patience_s, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            self._prepare(connection)
            # Such a descriptor gives up no locks when it is closed; it only tells whether the file has a name.
            self._mark = os.open(self.path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except UnicodeDecodeError as error:
            # SQLite quotes from a damaged schema what it could not read, which need not be UTF-8.
            connection.close()
            damaged = sqlite3.DatabaseError("malformed database schema")
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged from error
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Views and triggers that somebody else put into the file may call nothing.
        connection.execute("PRAGMA trusted_schema=OFF")
        _to_wal(connection, self.path, self._patience_s)
        connection.execute("PRAGMA synchronous=NORMAL")
        self._synced, self._waits = False, True
        if self._version(connection) == len(self._steps):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been quicker.
            found = self._version(connection)
            for number, step in enumerate(self._steps[found:], found + 1):
                for statement in step:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={number}")
            connection.execute(f"PRAGMA application_id={self._application}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _version(self, connection: sqlite3.Connection) -> int:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != self._application and (application or version or objects):
            raise BackendError("opening a database", f"{self.path} is not one of ours", "move the file away")
        if version > len(self._steps):
            raise BackendError(
                "opening a database",
                f"{self.path} was made by a newer version of Fastness",
                "update Fastness, or move the file away",
            )
        return int(version)


def _to_wal(connection: sqlite3.Connection, path: str, patience_s: float) -> None:
    """Switch to the write-ahead log.  The first switch of a new file does not wait for others by itself."""
    ends = time.monotonic() + max(patience_s, 1.0)
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if not busy(error) or time.monotonic() >= ends:
                raise
            time.sleep(0.005)
    if mode != "wal":
        raise BackendError(
            "opening a database",
            f"{path}: its file system has no memory that processes share",
            "set FASTNESS_HOME to a folder on a local file system",
        )


def _check(path: str, *, make: bool) -> None:
    """Make the file, or refuse one that is a link, another's, or open to others."""
    try:
        # Closing a descriptor of a file gives up all locks that this process has on it (fcntl(2)), those of SQLite too.
        # So a file that is there is looked at by name, and while one is made no other connection is.
        with _making:
            if make and not os.path.lexists(path):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                try:
                    os.close(os.open(path, flags, 0o600))
                except FileExistsError:
                    pass
            status = os.lstat(path)
    except OSError as error:
        raise failed("opening a database", path, error) from error
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise BackendError(
            "opening a database",
            f"{path} is not a file of this user alone",
            f"move it away, or where it is yours run: chmod 600 {path}",
        )
