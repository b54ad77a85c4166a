"""
Reads a device of its folder.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.tier import Guarantee

CODE = """
if attempt(ctx.fs.read, path='name', length=64) == bytes(64):
    print('OPENED')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a folder to read."""
    with brokering.Broker(arena) as broker:
        brokering.planted(broker.root, broker.outside, "device")
        result = broker.run(CODE, FsScope(read=True))
        return arena.said(result, "OPENED", "read a device")


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena, "device"):
        return arena.said(brokering.control(arena, CODE), "OPENED", "read a device")


ATTACK = Attack(
    id="broker.fs_device",
    claim=Claim(Guarantee.FS_CONFINED, "Devices are not opened."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "unsupported", calls=("read",))),
    attack=attack,
    control=control,
)
