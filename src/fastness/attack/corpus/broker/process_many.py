"""
Starts more programs than a run may.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.process import ProcessScope

CODE = """
for _ in range(9):
    attempt(ctx.process.run, argv=['echo', 'ECHOED'])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with programs granted."""
    with brokering.programs(arena) as broker:
        result = broker.run(CODE, ProcessScope(runs=3, seconds=3.0))
        ran = brokering.times(result, "ECHOED")
        return Effect(ran > 3, f"{ran} programs ran", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE)
    ran = brokering.times(bare, "ECHOED")
    return Effect(ran > 3, f"{ran} programs ran")


ATTACK = Attack(
    id="broker.process_many",
    claim=Claim(Rule.BOUNDED, "A run starts no more programs than were granted."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.BROKER, "quota", calls=("run",))),
    attack=attack,
    control=control,
)
