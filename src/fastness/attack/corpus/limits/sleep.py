"""
Sleeps: a host that only counts computation never notices.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import time

time.sleep(3)
print('SURVIVED')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE), timeout=1), "SURVIVED", "slept through its limit")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "SURVIVED", "slept through its limit")


ATTACK = Attack(
    id="limits.sleep",
    claim=Claim(Guarantee.WALL_KILL, "A sleep ends at the time limit."),
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
