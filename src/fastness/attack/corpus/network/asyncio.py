"""
Connects by way of asyncio's event loop.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
import asyncio


async def knock():
    _, writer = await asyncio.open_connection('127.0.0.1', PORT)
    writer.close()


asyncio.run(knock())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    door = arena.listen()
    return door.knocked(arena.run(arena.python(CODE, PORT=door.port)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    door = arena.listen()
    return door.knocked(arena.outside.run(arena.python(CODE, PORT=door.port)))


ATTACK = Attack(
    id="network.asyncio",
    claim=Claim(Guarantee.NET_CONFINED, "An event loop opens no way out either."),
    tiers={
        "wasm": Expect(Layer.GUEST, "unsupported"),
        "confined": refused("socket"),
        "container": Expect(Layer.NAMESPACE),
        "isolated": refused("socket"),
    },
    attack=attack,
    control=control,
)
