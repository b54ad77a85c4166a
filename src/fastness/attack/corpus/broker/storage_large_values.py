"""
Keeps more than its quota in one value, under one key again and again, and in a value that is packed small.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.storage import StorageScope

QUOTA = 16 << 10

CODE = """
attempt(ctx.storage.put, key='a', value=bytes(100000))
for number in range(4):
    attempt(ctx.storage.put, key='b' + str(number), value=chr(0) * 5000)
    attempt(ctx.storage.put, key='c' + str(number), value='é' * 7000)
attempt(ctx.storage.put, key='d', value=[0] * 60000)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with 16 KiB granted."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, StorageScope(quota=QUOTA, value_bytes=QUOTA))
        kept = sum(map(len, broker.kept().values()))
        return Effect(kept > QUOTA, f"{kept} bytes are kept", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    base = arena.folder / "careless.db"
    brokering.control(arena, CODE, DATABASE=str(base))
    kept = base.stat().st_size if base.exists() else 0
    return Effect(kept > 8 * QUOTA, f"{kept} bytes are kept")


ATTACK = Attack(
    id="broker.storage_large_values",
    claim=Claim(Rule.BOUNDED, "What is kept is counted as it is kept."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "too_large", calls=("put",))),
    attack=attack,
    control=control,
)
