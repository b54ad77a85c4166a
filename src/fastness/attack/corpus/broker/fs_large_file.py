"""
Reads more in one call than a call may.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.fs import FsScope

SIZE = 1 << 20

CODE = """
for how in ({}, {'length': 1 << 20}, {'offset': 1, 'length': 1 << 20}):
    if len(attempt(ctx.fs.read, path='large', **how) or b'') > 1 << 19:
        print('GOT')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a quarter of that granted."""
    with brokering.Broker(arena) as broker:
        (broker.root / "large").write_bytes(bytes(SIZE))
        result = broker.run(CODE, FsScope(read=True, call_bytes=SIZE // 4))
        return arena.said(result, "GOT", "got all of it")


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena):
        (arena.folder / "careless" / "root" / "large").write_bytes(bytes(SIZE))
        return arena.said(brokering.control(arena, CODE), "GOT", "got all of it")


ATTACK = Attack(
    id="broker.fs_large_file",
    claim=Claim(Rule.BOUNDED, "One call reads no more than was granted."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "too_large", calls=("read",))),
    attack=attack,
    control=control,
)
