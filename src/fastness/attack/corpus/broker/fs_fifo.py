"""
Reads a FIFO of its folder that nobody writes to, and writes to it.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.tier import Guarantee

CODE = """
print('BEGUN', flush=True)
attempt(ctx.fs.read, path='name')
attempt(ctx.fs.write, path='name', data=b'x')
print('DONE', flush=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; the call is answered."""
    with brokering.Broker(arena) as broker:
        brokering.planted(broker.root, broker.outside, "fifo")
        return brokering.stuck(broker.run(CODE, FsScope(read=True, write=True), timeout=3))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena, "fifo"):
        return brokering.stuck(brokering.control(arena, CODE, limit_s=0.7))


ATTACK = Attack(
    id="broker.fs_fifo",
    claim=Claim(Guarantee.CRASH_CONTAINED, "No file of a folder keeps a call waiting."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "unsupported", calls=("read",))
    ),
    attack=attack,
    control=control,
)
