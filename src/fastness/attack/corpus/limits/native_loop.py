"""
Spends its time inside one call of native code, where an interpreter checks nothing.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import re

# Doubles with each letter.
re.match(r'(?:a|a)+$', 'a' * 26 + 'b')
print('SURVIVED')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE), timeout=0.3), "SURVIVED", "finished")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "SURVIVED", "finished")


ATTACK = Attack(
    id="limits.native_loop",
    claim=Claim(Guarantee.WALL_KILL, "One endless call of native code ends at the time limit."),
    tiers={
        "wasm": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "worker": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "confined": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "container": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("timeout",)),
    },
    attack=attack,
    control=control,
    slow=True,
)
