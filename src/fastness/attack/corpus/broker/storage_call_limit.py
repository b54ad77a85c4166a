"""
Makes more calls than a run may.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.storage import StorageScope

MOST = 20

CODE = """
for number in range(60):
    attempt(ctx.storage.put, key=f'k{number}', value=None)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with twenty."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, StorageScope(quota=1 << 20), how={"calls": MOST})
        kept = len(broker.kept())
        return Effect(kept > MOST, f"{kept} calls were done", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE, DATABASE=str(arena.folder / "careless.db"))
    kept = brokering.times(bare, "None\n")
    return Effect(kept > MOST, f"{kept} calls were done")


ATTACK = Attack(
    id="broker.storage_call_limit",
    claim=Claim(Rule.BOUNDED, "A run makes no more calls than it may; one more ends it."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.LIMIT, outcomes=("call_limit",))),
    attack=attack,
    control=control,
)
