"""
Provides names without end, all of which its host would keep.
"""

from __future__ import annotations

from fastness.attack import lives
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
def setup(ctx):
    for number in range(200):
        try:
            ctx.provide(f"name:{number}", number)
        except Exception:
            pass
"""


def attack(arena: Arena) -> Effect:
    """In the tier, as the first of two plugins."""
    with lives.life(arena, CODE, policy={"provide": ["name:*"]}) as life:
        life.start()
        count = len(life.host.provided())
        return Effect(count > 16, f"it provides {count} names", life.result)


def control(arena: Arena) -> Effect:
    """In a host that runs it as it is."""
    bare = lives.careless(arena, CODE, "print('NAMES', len(ctx.values))")
    return arena.said(bare, "NAMES 203", "has provided all of them")


ATTACK = Attack(
    id="lifecycle.many_names",
    claim=Claim(Rule.BOUNDED, "What a plugin provides is counted."),
    tiers=dict.fromkeys(lives.TIERS, Expect(Layer.BROKER, "not_granted")),
    attack=attack,
    control=control,
)
