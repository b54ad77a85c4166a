"""
Writes and makes files by a folder that is a link to the one outside.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.tier import Guarantee

CODE = """
attempt(ctx.fs.write, path='folder/name', data=b'changed')
attempt(ctx.fs.delete, path='folder/name')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a folder to write."""
    with brokering.Broker(arena) as broker:
        brokering.planted(broker.root, broker.outside, "folder")
        result = broker.run(CODE, FsScope(read=True, write=True))
        changed = brokering.changed(arena, broker.outside)
        return Effect(changed, f"the file outside was {'changed' if changed else 'not changed'}", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena, "folder") as outside:
        brokering.control(arena, CODE)
        changed = brokering.changed(arena, outside)
        return Effect(changed, f"the file outside was {'changed' if changed else 'not changed'}")


ATTACK = Attack(
    id="broker.fs_linked_folder_written",
    claim=Claim(Guarantee.FS_CONFINED, "Nothing is written or deleted by way of a link."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "escape", calls=("write", "delete"))),
    attack=attack,
    control=control,
)
