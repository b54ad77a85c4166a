"""
Writes to a name in its folder that is a link to what is outside.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.tier import Guarantee

CODE = """
attempt(ctx.fs.write, path='name', data=b'changed')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a folder to write."""
    with brokering.Broker(arena) as broker:
        brokering.planted(broker.root, broker.outside, "link")
        result = broker.run(CODE, FsScope(read=True, write=True))
        changed = brokering.changed(arena, broker.outside)
        return Effect(changed, f"the file outside was {'changed' if changed else 'not changed'}", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena, "link") as outside:
        brokering.control(arena, CODE)
        changed = brokering.changed(arena, outside)
        return Effect(changed, f"the file outside was {'changed' if changed else 'not changed'}")


ATTACK = Attack(
    id="broker.fs_link_written",
    claim=Claim(Guarantee.FS_CONFINED, "Nothing is written through a link."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "escape", calls=("write",))),
    attack=attack,
    control=control,
)
