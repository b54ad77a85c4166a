"""
Loses its grant while another process holds the audit trail, so that nobody can read of it later.
"""

from __future__ import annotations

import contextlib
import sqlite3

from fastness.attack import brokering, hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading
from fastness.errors import BackendError

STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
host.granted.clear()
_noted('revoked')
print('REVOKED')
"""

CODE = """
def work(ctx):
    ctx.storage.put(key='name', value=1)
"""


def attack(arena: Arena) -> Effect:
    """Revoked while it is held, and called when it is not any more."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        home.grant()
        path = str(home.data / "audit.db")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            try:
                home.revoke()
            except BackendError:
                pass
            else:
                raise RuntimeError("the trail was not held")
            other.execute("ROLLBACK")
        result = home.tried()
        recorded = [row.op for row in reading.records(path)]
        brokering.sure(not home.kept(), "it was not revoked")
        return Effect("revoke" not in recorded, f"the trail has {', '.join(recorded)}", result)


def control(arena: Arena) -> Effect:
    """Before a host that goes on where it cannot write its log."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": CODE}}, LOG="/dev/full")
    return arena.said(bare, "REVOKED", "was revoked, and no log says so")


ATTACK = Attack(
    id="plugins.revoked_while_locked",
    claim=Claim(Rule.RECORDED, "What ends a plugin is recorded, though its trail could not be written just then."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)
