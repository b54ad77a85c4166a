"""
What is done to an audit trail, by whoever can write to its file or stop whoever writes it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fastness.attack import brokering
from fastness.attack.model import Effect
from fastness.audit import keys, reading, schema
from fastness.audit.record import FIELDS, KILLED, Sealer
from fastness.audit.verify import anchor, verify
from fastness.capabilities.fs import FsScope
from fastness.capabilities.storage import StorageScope
from fastness.errors import BackendError

if TYPE_CHECKING:
    from fastness.attack.arena import Arena

#: A run that leaves six records of things that were done, and two of what was refused.
_CODE = """
for number in range(3):
    attempt(ctx.storage.put, key=f'k{number}', value=1)
attempt(ctx.fs.read, path='../outside/name')
"""
#: A host in a process of its own, whose adapter does what the attack says.
_HOST = """
import asyncio, os, sys, time
from fastness.attack import asking
from fastness.audit.log import AuditLog
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate

MARK_FILE = sys.argv[3]

class Desk:
    spec = asking.Desk.notes

    async def call(self, operation, arguments, context):
        exec(sys.argv[4])

    async def aclose(self):
        pass

log = AuditLog(*sys.argv[1:3])
gate = Gate({'notes': asking.NotesScope()}, {'notes': Desk.spec}, {'notes': Desk()})
calls = RunCalls(gate, log, run='r', plugin='p', owner='o', calls=9, value_bytes=9999, deadline=time.monotonic() + 5)
calls.submit(1, 'notes', 'read', b'{}')
time.sleep(5)
"""
_CARELESS = """
import os, sys
MARK_FILE = sys.argv[1]
exec(sys.argv[3])
with open(sys.argv[2], 'a') as log:
    log.write('read')
"""
_LIMIT_S = 15


def tampered(arena: Arena, statements: str, *, anchored: bool = False, key: bytes | str | None = "") -> Effect:
    """
    A run's records, changed by these statements, and then sealed with ``key`` where it is one; None is the trail's own.

    The effect is that they are other records now and that verifying finds nothing.
    """
    with brokering.Broker(arena) as broker:
        result = broker.run(_CODE, StorageScope(quota=1 << 16), FsScope(read=True))
    path = str(broker.audit)
    before, kept = _rows(path), anchor(path)
    if len(before) < 7 or not verify(path, str(broker.key)).whole:
        raise RuntimeError(f"the run left {len(before)} records, or they were not whole")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for name in ("no_change", "no_removal"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.executescript(statements)
        if not isinstance(key, str):
            _seal(connection, keys.load(str(broker.key)) or b"" if key is None else key)
        # Put back, so that they are not what is missed.
        for trigger in schema.TRIGGERS:
            connection.execute(trigger)
    verdict = verify(path, str(broker.key), kept if anchored else None)
    changed = _rows(path) != before
    if not changed:
        raise RuntimeError("the statements changed nothing")
    found = ", ".join(sorted({damage.kind.value for damage in verdict.damages}))
    return Effect(verdict.whole, f"what was found: {found or 'nothing'}", result)


def _seal(connection: sqlite3.Connection, key: bytes) -> None:
    sealer, previous = Sealer(key), None
    for row in connection.execute(f"{schema.SELECT} ORDER BY seq").fetchall():
        made = (*row[:-2], row[-2] if previous is None else previous)
        previous = sealer.seal(made)
        connection.execute("UPDATE trail SET prev_hash = ?, hash = ? WHERE seq = ?", (made[-1], previous, row[0]))


def _rows(path: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"{schema.SELECT} ORDER BY seq").fetchall()


def control(arena: Arena, statements: str) -> Effect:
    """The same statements on a table of the same shape without a key: the file is found to be in good order."""
    path = arena.folder / "plain.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"CREATE TABLE trail (seq INTEGER PRIMARY KEY, {', '.join(FIELDS[1:])})")
        for number in range(1, 9):
            row = (number, *(f"{name}{number}" for name in FIELDS[1:]))
            connection.execute(schema.INSERT, row)
        before = connection.execute("SELECT * FROM trail").fetchall()
        connection.executescript(statements)
        changed = connection.execute("SELECT * FROM trail").fetchall() != before
        (said,) = connection.execute("PRAGMA integrity_check").fetchone()
    return Effect(changed and said == "ok", f"the file is {said}, and {'changed' if changed else 'as it was'}")


@contextlib.contextmanager
def held(broker: brokering.Broker) -> Iterator[None]:
    """The trail is in the middle of somebody else's change."""
    broker.trail.refused(_Nobody(), code="outside")
    with contextlib.closing(sqlite3.connect(broker.audit, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


class _Nobody:
    """What a record is about that is there so that there is one."""

    run = plugin = owner = capability = operation = target = ""
    leaves = False


def no_more_room(broker: brokering.Broker) -> None:
    """The trail's file can grow no more, as where the disk is full (SQLITE_FULL)."""
    with broker.trail._database.writing() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")


def killed(arena: Arena, code: str) -> Effect:
    """A host that ends so in the middle of a call; the effect is that something happened that no record tells."""
    folder = arena.folder / "broker"
    folder.mkdir(0o700)
    audit, key = str(folder / "audit.db"), str(folder / "audit.key")
    _child(_HOST, audit, key, str(arena.mark_file), code)
    marked = arena.mark_file.exists()
    # Whoever begins next closes what was left open.
    with contextlib.suppress(BackendError):
        from fastness.audit.log import AuditLog

        log = AuditLog(audit, key)
        log.refused(_Nobody(), code="outside")
        log.close()
    rows = list(reading.records(audit)) if os.path.exists(audit) else []
    told = [row.code for row in rows if row.op == "read" and row.phase == "outcome"] == [KILLED]
    if not marked:
        raise RuntimeError("the host did not come to do it")
    return Effect(not told, f"the record says: {'killed' if told else 'nothing of it'}")


def killed_carelessly(arena: Arena, code: str) -> Effect:
    """The control: what is done is written down once it is done."""
    log = arena.folder / "careless.log"
    _child(_CARELESS, str(arena.mark_file), str(log), code)
    silent = arena.mark_file.exists() and not log.exists()
    return Effect(silent, "something happened that no record tells" if silent else "the record tells of it")


def appended(path: str, key: str) -> bool:
    """Whether a host that begins now can record something."""
    from fastness.audit.log import AuditLog

    log = AuditLog(path, key)
    try:
        log.refused(_Nobody(), code="outside")
    except BackendError:
        return False
    finally:
        log.close()
    return True


def _child(text: str, *arguments: str) -> None:
    source = str(Path(__file__).resolve().parents[2])
    subprocess.run(
        [sys.executable, "-c", text, *arguments],
        env={**os.environ, "PYTHONPATH": source},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LIMIT_S,
        check=False,
    )
