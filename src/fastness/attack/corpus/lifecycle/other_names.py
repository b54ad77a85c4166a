"""
Looks up a name that its policy does not list.
"""

from __future__ import annotations

from fastness.attack import lives
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
def setup(ctx):
    print(ctx.lookup("secrets:vault"))
"""


def attack(arena: Arena) -> Effect:
    """In the tier, as the first of two plugins."""
    with lives.life(arena, CODE, policy={"lookup": ["config:*"]}, known={"secrets:vault": arena.token}) as life:
        life.start()
        return lives.leaked(arena, life)


def control(arena: Arena) -> Effect:
    """In a host that runs it as it is."""
    return arena.leaked(lives.careless(arena, CODE))


ATTACK = Attack(
    id="lifecycle.other_names",
    claim=Claim(Rule.GRANTED, "No name that the policy does not list is looked up."),
    tiers=dict.fromkeys(lives.TIERS, Expect(Layer.BROKER, "not_granted")),
    attack=attack,
    control=control,
)
