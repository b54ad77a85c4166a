"""
Leaves a value for another tenant.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import builtins

builtins.left = TOKEN
open('left', 'w').write(TOKEN)
"""
SECOND = """
import builtins, os

print(getattr(builtins, 'left', None), os.path.exists('left') and open('left').read())
"""


def attack(arena: Arena) -> Effect:
    """In the tier: the first run leaves something, the second looks for it."""
    arena.run(arena.python(FIRST, TOKEN=arena.token), tenant="attack-one")
    return arena.leaked(arena.run(arena.python(SECOND), tenant="attack-two"))


def control(arena: Arena) -> Effect:
    """The same two programs in one interpreter."""
    bare = arena.outside.in_process(arena.python(FIRST, TOKEN=arena.token), arena.python(SECOND))
    return arena.leaked(bare)


ATTACK = Attack(
    id="state.tenants",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Tenants share no guest, so nothing passes from one to another."),
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
