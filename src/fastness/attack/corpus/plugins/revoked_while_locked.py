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

#: How the other process holds it.
HELD = "BEGIN IMMEDIATE"
#: Before a careless host, which goes on where it cannot write its trail.
STEPS = """
def recorded(what):
    try:
        with sqlite3.connect(TRAIL, timeout=0.2) as base:
            base.execute('INSERT INTO trail VALUES (?)', (what,))
    except sqlite3.OperationalError as error:
        print(error, flush=True)

with sqlite3.connect(TRAIL) as base:
    base.execute('CREATE TABLE trail (what TEXT)')
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin'); recorded('grant')
host.invoke('plugin')
other = sqlite3.connect(TRAIL, isolation_level=None)
other.execute(HELD)
host.granted.clear(); recorded('revoke')
other.execute('ROLLBACK')
try:
    host.invoke('plugin')
except PermissionError:
    print('REVOKED', [what for (what,) in sqlite3.connect(TRAIL).execute('SELECT what FROM trail')], flush=True)
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
            other.execute(HELD)
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
    """Before a host that goes on where it cannot write its trail."""
    path, plugins = str(arena.folder / "careless.trail"), {"plugin": {"plugin.py": CODE}}
    bare = hosting.careless(arena, STEPS, plugins=plugins, HELD=HELD, TRAIL=path)
    return arena.said(bare, "REVOKED ['grant']", "was revoked, and no trail says so")


ATTACK = Attack(
    id="plugins.revoked_while_locked",
    claim=Claim(Rule.RECORDED, "What ends a plugin is recorded, though its trail could not be written just then."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)
