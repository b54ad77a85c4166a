"""Embedded databases: made private, migrated once whoever is first, shared by processes and threads, refused where not ours."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastness.database import Database, broken, busy, failed, full
from fastness.errors import BackendError

ONE = (("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)", "INSERT INTO t VALUES (1, 'first')"),)
TWO = (*ONE, ("ALTER TABLE t ADD COLUMN c TEXT DEFAULT 'new'",))
NUMBER = 4711


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "x.db")


@pytest.fixture
def database(path: str) -> Iterator[Database]:
    made = Database(path, ONE, application=NUMBER, patience_s=0.1)
    yield made
    made.close()


def all_of(database: Database) -> list[tuple[object, ...]]:
    with database.reading() as connection:
        return list(connection.execute("SELECT * FROM t"))


def test_nothing_is_made_before_the_first_use(database: Database) -> None:
    """And then it is its owner's alone, whatever the mask of this process."""
    assert not Path(database.path).exists()
    before = os.umask(0)
    try:
        assert all_of(database) == [(1, "first")]
        with database.writing() as connection:
            connection.execute("INSERT INTO t VALUES (2, 'x')")
    finally:
        os.umask(before)
    for found in Path(database.path).parent.iterdir():
        assert found.stat().st_mode & 0o077 == 0


def test_a_missing_file_is_not_made_for_a_reader(path: str) -> None:
    """Without make it is an error."""
    database = Database(path, ONE, application=NUMBER, make=False)
    with pytest.raises(BackendError):
        all_of(database)
    assert not Path(path).exists()


def test_all_or_nothing(database: Database) -> None:
    """A block that raises has done nothing, and the next one works."""
    with pytest.raises(ZeroDivisionError), database.writing() as connection:
        connection.execute("INSERT INTO t VALUES (2, 'x')")
        raise ZeroDivisionError
    assert all_of(database) == [(1, "first")]
    with database.writing() as connection:
        connection.execute("INSERT INTO t VALUES (2, 'x')")
    assert len(all_of(database)) == 2


@pytest.mark.parametrize("sync", [True, False])
def test_synced_where_it_is_asked_for(sync: bool, database: Database) -> None:
    """The setting that the commit is made under (PRAGMA synchronous: 1 NORMAL, 2 FULL), in either order."""
    for now in (sync, not sync, sync):
        with database.writing(sync=now) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2 if now else 1,)


def test_a_newer_schema_is_brought_in(path: str) -> None:
    """What was there stays; threads that come at once migrate once."""
    old = Database(path, ONE, application=NUMBER)
    all_of(old)
    old.close()
    databases = [Database(path, TWO, application=NUMBER) for _ in range(4)]
    found: list[object] = []
    threads = [threading.Thread(target=lambda one=one: found.append(all_of(one))) for one in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(1, "first", "new")]] * 4
    for one in databases:
        one.close()


def test_an_older_program_leaves_it_alone(path: str) -> None:
    """A database of a newer version is refused, and is as it was."""
    new = Database(path, TWO, application=NUMBER)
    all_of(new)
    new.close()
    with pytest.raises(BackendError) as caught:
        all_of(Database(path, ONE, application=NUMBER))
    assert "newer" in str(caught.value)


def test_another_application_is_refused(path: str, database: Database) -> None:
    """So is one of ours for another purpose."""
    all_of(database)
    with pytest.raises(BackendError) as caught:
        all_of(Database(path, ONE, application=NUMBER + 1))
    assert "not one of ours" in str(caught.value)


def test_a_migration_that_fails_leaves_nothing(path: str) -> None:
    """Neither tables nor a version; with the mistake mended it works."""
    bad = Database(path, ((*ONE[0], "CREATE NONSENSE"),), application=NUMBER)
    with pytest.raises(sqlite3.OperationalError):
        all_of(bad)
    assert all_of(Database(path, ONE, application=NUMBER)) == [(1, "first")]


def test_errors_say_what_to_do(database: Database) -> None:
    """Held, full and damaged are told apart."""
    all_of(database)
    holder = sqlite3.connect(database.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as held, database.writing():
        pass
    holder.execute("ROLLBACK")
    holder.close()
    with database.reading() as connection:
        connection.execute("PRAGMA max_page_count=1")
    with pytest.raises(sqlite3.OperationalError) as too_much, database.writing() as connection:
        connection.execute("INSERT INTO t VALUES (9, ?)", ("x" * 100_000,))
    database.close()
    Path(database.path).write_bytes(b"no database" * 1000)
    with pytest.raises(sqlite3.DatabaseError) as damaged:
        all_of(database)
    tests = [(busy(e.value), full(e.value), broken(e.value)) for e in (held, too_much, damaged)]
    assert tests == [(True, False, False), (False, True, False), (False, False, True)]
    errors = [held.value, too_much.value, damaged.value, FileNotFoundError(2, "gone")]
    hints = {failed("step", "path", error).hint for error in errors}
    assert len(hints) == 4


def test_threads_take_turns(database: Database) -> None:
    """No transaction of one thread is in another's."""

    def work() -> None:
        for _ in range(50):
            with database.writing() as connection:
                (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
                connection.execute("INSERT INTO t VALUES (?, 'x')", (count + 1,))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row[0] for row in all_of(database)] == list(range(1, 202))


def test_a_child_has_a_connection_of_its_own(database: Database) -> None:
    """A forked child writes, and what its parent has open goes on working."""
    all_of(database)
    child = os.fork()
    if not child:
        try:
            assert database.renewed()
            with database.writing() as connection:
                connection.execute("INSERT INTO t VALUES (2, 'child')")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    with database.writing() as connection:
        connection.execute("INSERT INTO t VALUES (3, 'parent')")
    assert [row[1] for row in all_of(database)] == ["first", "child", "parent"]


def test_a_removed_file_is_noticed(database: Database) -> None:
    """Whoever asks before writing does not write to a file without a name."""
    assert database.renewed()
    all_of(database)
    assert not database.renewed()
    for found in Path(database.path).parent.iterdir():
        found.unlink()
    assert database.renewed()
    with database.writing() as connection:
        connection.execute("INSERT INTO t VALUES (2, 'again')")
    assert Path(database.path).exists()


def test_locks_outlive_another_connection_of_this_process(database: Database) -> None:
    """Opening and closing the file a second time here does not give up what the first one holds (fcntl(2))."""
    all_of(database)
    with database.writing() as connection:
        connection.execute("INSERT INTO t VALUES (2, 'x')")
        second = Database(database.path, ONE, application=NUMBER, patience_s=0.0)
        assert len(all_of(second)) == 1
        second.close()
        child = os.fork()
        if not child:
            try:
                other = sqlite3.connect(database.path, timeout=0, isolation_level=None)
                other.execute("BEGIN IMMEDIATE")
                os._exit(7)
            except sqlite3.OperationalError:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
