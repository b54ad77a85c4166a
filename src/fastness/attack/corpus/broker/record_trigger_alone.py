"""
Plants a trigger that removes records as they are appended, in the place of those that forbid it, and no more.
"""

from __future__ import annotations

import contextlib
import sqlite3

from fastness.attack import brokering, recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit.verify import verify
from fastness.capabilities.storage import StorageScope

CODE = """
attempt(ctx.storage.put, key='name', value=1)
"""
SQL = """
DROP TRIGGER IF EXISTS no_change;
DROP TRIGGER IF EXISTS no_removal;
CREATE TRIGGER quiet AFTER INSERT ON trail BEGIN DELETE FROM trail WHERE seq = new.seq; END;
"""


def attack(arena: Arena) -> Effect:
    """In the tier, whose run leaves records; then somebody who can write to the file; then another host begins."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, StorageScope(quota=1 << 16))
    path, key = str(broker.audit), str(broker.key)
    brokering.sure(verify(path, key).whole, "the run's records were not whole")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(SQL)
    wrote = recording.appended(path, key)
    found = not verify(path, key).whole
    seen = (
        f"another record was {'taken' if wrote else 'refused'}, and the trigger was {'found' if found else 'not found'}"
    )
    return Effect(wrote or not found, seen, result)


def control(arena: Arena) -> Effect:
    """A trail that anybody appends to: the record is gone, and a check of the file finds nothing."""
    with contextlib.closing(sqlite3.connect(arena.folder / "plain.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE trail (seq INTEGER PRIMARY KEY, target)")
        connection.executescript(SQL)
        connection.execute("INSERT INTO trail VALUES (1, 'harm')")
        rows = connection.execute("SELECT * FROM trail").fetchall()
        (said,) = connection.execute("PRAGMA integrity_check").fetchone()
    return Effect(not rows and said == "ok", f"the file is {said}, and has {len(rows)} records of 1")


ATTACK = Attack(
    id="broker.record_trigger_alone",
    claim=Claim(Rule.RECORDED, "Where somebody has planted a trigger, nothing more is recorded or done."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
