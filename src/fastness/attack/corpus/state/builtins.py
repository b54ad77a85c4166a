"""
Leaves a value in the interpreter for whoever runs next.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import builtins, sys

builtins.left = TOKEN
sys.left = TOKEN
"""
SECOND = """
import builtins, sys

print(getattr(builtins, 'left', None), getattr(sys, 'left', None))
"""


def attack(arena: Arena) -> Effect:
    """In the tier: the first run leaves something, the second looks for it."""
    arena.run(arena.python(FIRST, TOKEN=arena.token))
    return arena.leaked(arena.run(arena.python(SECOND)))


def control(arena: Arena) -> Effect:
    """The same two programs in one interpreter."""
    bare = arena.outside.in_process(arena.python(FIRST, TOKEN=arena.token), arena.python(SECOND))
    return arena.leaked(bare)


ATTACK = Attack(
    id="state.builtins",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Nothing that a run leaves in its interpreter is there in the next."),
    tiers={
        "wasm": Expect(Layer.FRESH),
        "worker": Expect(Layer.FRESH),
        "confined": Expect(Layer.FRESH),
        "container": Expect(Layer.FRESH),
        "isolated": Expect(Layer.FRESH),
    },
    attack=attack,
    control=control,
)
