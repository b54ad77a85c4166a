"""
Goes on keeping things when its grant has come to its end.
"""

from __future__ import annotations

import time

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.storage import StorageScope

CODE = """
import time
attempt(ctx.storage.put, key='early', value=1)
time.sleep(0.6)
attempt(ctx.storage.put, key='late', value=1)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a grant that ends during the run."""
    with brokering.Broker(arena) as broker:
        how = {"expires": time.time() + 0.5}
        result = broker.run(CODE, StorageScope(quota=1 << 16), how=how)
        kept = sorted(broker.kept())
        brokering.sure("early" in kept, "it was too late from the beginning")
        return Effect("late" in kept, f"it kept {kept}", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE, DATABASE=str(arena.folder / "careless.db"))
    kept = brokering.times(bare, "None\n")
    return Effect(kept == 2, f"it kept {kept} things")


ATTACK = Attack(
    id="broker.storage_expired",
    claim=Claim(Rule.GRANTED, "A grant that ends while a run goes on allows nothing from then on."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "expired", calls=("put",))),
    attack=attack,
    control=control,
)
