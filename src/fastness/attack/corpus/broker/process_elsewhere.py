"""
Was granted programs in a tier that this machine does not have.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule, Skip
from fastness.backends import registry
from fastness.capabilities.process import ProcessScope
from fastness.tier import Tier

CODE = """
attempt(ctx.process.run, argv=['touch', MARK_FILE])
attempt(ctx.process.run, argv=['sh', '-c', 'echo RAN'])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with programs granted."""
    if Tier.CONTAINER in registry.SERVED:
        raise Skip("there is such a tier in this version")
    with brokering.programs(arena) as broker:
        result = broker.run(CODE, ProcessScope(runs=9, seconds=3.0, tier="container"))
        effect = arena.marked(result)
        ran = brokering.times(result, "RAN")
        return Effect(effect.happened or ran > 0, f"{effect.seen}; {ran} programs ran", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE)
    effect = arena.marked(bare)
    ran = brokering.times(bare, "RAN")
    return Effect(effect.happened and ran > 0, f"{effect.seen}; {ran} programs ran")


ATTACK = Attack(
    id="broker.process_elsewhere",
    claim=Claim(Rule.GRANTED, "A program runs in the tier that was granted, and without that one nowhere."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
