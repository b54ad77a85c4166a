"""
Provides a value under the name of another's.
"""

from __future__ import annotations

from fastness.attack import lives
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
def setup(ctx):
    ctx.provide("shared:client", "mine")
"""


def attack(arena: Arena) -> Effect:
    """In the tier, as the first of two plugins."""
    with lives.life(arena, CODE, policy={"provide": ["*"]}, known={"shared:client": "of another"}) as life:
        life.start()
        value = life.host.lookup("shared:client")
        return Effect(value != "of another", f"the name stands for what is {value}", life.result)


def control(arena: Arena) -> Effect:
    """In a host that runs it as it is."""
    bare = lives.careless(arena, CODE, "print('NOW', ctx.values['shared:client'])")
    return arena.said(bare, "NOW mine", "has taken the name")


ATTACK = Attack(
    id="lifecycle.taken_name",
    claim=Claim(Rule.OWNED, "A name that is provided stays its owner's."),
    tiers=dict.fromkeys(lives.TIERS, Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
