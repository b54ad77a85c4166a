"""
Calls a function of its host that it found among what others provide.
"""

from __future__ import annotations

from fastness.attack import lives
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
def setup(ctx):
    ctx.lookup("client")["send"]()
"""


def attack(arena: Arena) -> Effect:
    """In the tier, as the first of two plugins."""
    known = {"client": {"send": arena.mark_file.touch}}
    with lives.life(arena, CODE, policy={"lookup": ["*"]}, known=known) as life:
        life.start()
        return lives.marked(arena, life)


def control(arena: Arena) -> Effect:
    """In a host that runs it as it is."""
    return arena.marked(lives.careless(arena, CODE))


ATTACK = Attack(
    id="lifecycle.live_objects",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No live object of the host reaches a plugin in a guest."),
    tiers=dict.fromkeys(lives.TIERS, Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
