"""
Keeps very many keys with nothing in them.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.storage import StorageScope

QUOTA = 8 << 10

CODE = """
for number in range(150):
    attempt(ctx.storage.put, key=f'k{number}', value=None)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with room for sixty."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, StorageScope(quota=QUOTA))
        kept = len(broker.kept())
        return Effect(kept * 128 > QUOTA, f"{kept} keys are kept", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE, DATABASE=str(arena.folder / "careless.db"))
    kept = brokering.times(bare, "None\n")
    return Effect(kept * 128 > QUOTA, f"{kept} keys are kept")


ATTACK = Attack(
    id="broker.storage_tiny_keys",
    claim=Claim(Rule.BOUNDED, "Keys count against a quota beside what they hold."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("put",))),
    attack=attack,
    control=control,
)
