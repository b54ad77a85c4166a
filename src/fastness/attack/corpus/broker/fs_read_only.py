"""
Changes its folder, which it may only read.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.fs import FsScope

CODE = """
attempt(ctx.fs.write, path='new', data=b'x')
attempt(ctx.fs.mkdir, path='folder')
attempt(ctx.fs.delete, path='kept')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a folder to read."""
    with brokering.Broker(arena) as broker:
        (broker.root / "kept").write_text("as it was")
        result = broker.run(CODE, FsScope(read=True))
        there = sorted(path.name for path in broker.root.iterdir())
        return Effect(there != ["kept"], f"the folder has {there}", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena):
        root = arena.folder / "careless" / "root"
        (root / "kept").write_text("as it was")
        brokering.control(arena, CODE)
        there = sorted(path.name for path in root.iterdir())
        return Effect(there == ["folder", "new"], f"the folder has {there}")


ATTACK = Attack(
    id="broker.fs_read_only",
    claim=Claim(Rule.GRANTED, "Without a grant to write nothing in a folder changes."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"),
        Expect(Layer.BROKER, "read_only", calls=("write", "delete", "mkdir")),
    ),
    attack=attack,
    control=control,
)
