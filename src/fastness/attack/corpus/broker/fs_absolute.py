"""
Names what is outside its folder by where it is on this machine.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.tier import Guarantee

CODE = """
for path in (PLACE, '/' + PLACE, PLACE.replace('/', '%2f')):
    attempt(ctx.fs.read, path=path)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a folder to read."""
    with brokering.Broker(arena) as broker:
        place = str(broker.outside / "name")
        return arena.leaked(broker.run(CODE, FsScope(read=True), facts={"PLACE": place}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    place = str(arena.folder / "careless" / "outside" / "name")
    return brokering.every(arena, brokering.control(arena, CODE, PLACE=place), 3)


ATTACK = Attack(
    id="broker.fs_absolute",
    claim=Claim(Guarantee.FS_CONFINED, "An absolute path names nothing."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "escape", calls=("read",))),
    attack=attack,
    control=control,
)
