"""
Names what is outside its folder, in spellings of ``..`` that somebody reads as that.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.tier import Guarantee

SPELLINGS = (
    "../outside/name",
    "./../outside/name",
    "..//outside/name",
    "%2e%2e/outside/name",
    "%252e%252e/outside/name",
    "..%2foutside/name",
    "..\\outside\\name",
    "\uff0e\uff0e/outside/name",
    "..\uff0foutside/name",
    "\u2025/outside/name",
    "../outside/name\0.txt",
)

CODE = """
for path in SPELLINGS:
    attempt(ctx.fs.read, path=path)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a folder to read."""
    with brokering.Broker(arena) as broker:
        return arena.leaked(broker.run(CODE, FsScope(read=True), facts={"SPELLINGS": SPELLINGS}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    return brokering.every(arena, brokering.control(arena, CODE, SPELLINGS=SPELLINGS), len(SPELLINGS))


ATTACK = Attack(
    id="broker.fs_dotdot",
    claim=Claim(Guarantee.FS_CONFINED, "No spelling of a path leads out of the folder that was granted."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "escape", calls=("read",))),
    attack=attack,
    control=control,
)
