"""
Has the database load native code.
"""

from __future__ import annotations

import sqlite3

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Skip
from fastness.tier import Guarantee

CODE = """
import sqlite3

sqlite3.connect(':memory:').enable_load_extension(True)
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        raise Skip("this interpreter's database was built without extensions")
    return arena.said(arena.run(arena.python(CODE)), "DONE", "may load native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "may load native code")


ATTACK = Attack(
    id="worker.sqlite_extension",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses extensions of the database."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
