"""
Asks for a time that is no number, or none, or without end, to have a program stay longer than granted.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.process import ProcessScope

CODE = """
for seconds in (float('nan'), float('inf'), 1e308, 3600, True):
    attempt(ctx.process.run, argv=['sh', '-c', 'sleep 0.4; echo STAYED'], timeout=seconds)
by_hand('process', 'run', b'{"argv": ["sh", "-c", "sleep 0.4; echo STAYED"], "timeout": NaN}')
by_hand('process', 'run', b'{"argv": ["sh", "-c", "sleep 0.4; echo STAYED"], "timeout": {"$": ["float", "nan"]}}')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with programs granted."""
    with brokering.programs(arena) as broker:
        result = broker.run(CODE, ProcessScope(runs=20, seconds=0.15))
        stayed = brokering.times(result, "STAYED")
        return Effect(stayed > 0, f"{stayed} stayed", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE)
    stayed = brokering.times(bare, "STAYED")
    return Effect(stayed > 0, f"{stayed} stayed")


ATTACK = Attack(
    id="broker.process_time",
    claim=Claim(Rule.BOUNDED, "A program runs no longer than was granted, whatever time is asked for."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)
