"""
Reads and lists by a folder that is a link to the one outside.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.tier import Guarantee

CODE = """
attempt(ctx.fs.list, path='folder')
attempt(ctx.fs.read, path='folder/name')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a folder to read."""
    with brokering.Broker(arena) as broker:
        brokering.planted(broker.root, broker.outside, "folder")
        return arena.leaked(broker.run(CODE, FsScope(read=True)))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena, "folder"):
        return arena.leaked(brokering.control(arena, CODE))


ATTACK = Attack(
    id="broker.fs_linked_folder",
    claim=Claim(Guarantee.FS_CONFINED, "No link on the way to a file is followed."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "escape", calls=("read", "list"))),
    attack=attack,
    control=control,
)
