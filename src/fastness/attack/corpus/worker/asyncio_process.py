"""
Starts a program from an event loop.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import asyncio

async def main():
    process = await asyncio.create_subprocess_exec('touch', MARK_FILE)
    await process.wait()

asyncio.run(main())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.asyncio_process",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses programs started by `asyncio`."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
