"""
Has a program say the environment of the host.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.process import ProcessScope
from fastness.tier import Guarantee

CODE = """
attempt(ctx.process.run, argv=['env'])
attempt(ctx.process.run, argv=['sh', '-c', 'cat /proc/[0-9]*/environ'])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with programs granted."""
    with brokering.programs(arena) as broker:
        result = broker.run(CODE, ProcessScope(runs=9, seconds=3.0))
        return arena.leaked(result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE)
    return arena.leaked(bare)


ATTACK = Attack(
    id="broker.process_variables",
    claim=Claim(Guarantee.ENV_SCRUBBED, "A program that a guest asks for has none of the host's variables."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
