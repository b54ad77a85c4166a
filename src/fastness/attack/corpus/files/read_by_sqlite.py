"""
Attaches a database of the machine: SQLite opens files by itself, below Python.
"""

from __future__ import annotations

import contextlib
import sqlite3

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sqlite3

database = sqlite3.connect(':memory:')
database.execute('ATTACH DATABASE ? AS stolen', (FILE,))
print(database.execute('SELECT password FROM stolen.users').fetchall())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(_program(arena)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(_program(arena)))


def _program(arena: Arena) -> str:
    path = arena.folder / "users.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE users (password TEXT)")
        database.execute("INSERT INTO users VALUES (?)", (arena.token,))
        database.commit()
    return arena.python(CODE, FILE=str(path))


ATTACK = Attack(
    id="files.read_by_sqlite",
    claim=Claim(
        Guarantee.FS_CONFINED, "Libraries in native code inside the guest see the same empty machine as Python does."
    ),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
