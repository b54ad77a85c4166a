"""
Ends its process the hard way.
"""

from __future__ import annotations

from fastness.attack import serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

os.abort()
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    return serving.after(arena, CODE)


def control(arena: Arena) -> Effect:
    """The same two programs where the executor is the interpreter itself."""
    return serving.in_process(arena, CODE)


ATTACK = Attack(
    id="limits.abort",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A guest that aborts ends its own run and nothing else."),
    tiers={
        "wasm": Expect(Layer.ENGINE, outcomes=("crashed",)),
        "worker": Expect(Layer.ENGINE, outcomes=("crashed",)),
        "confined": Expect(Layer.ENGINE, outcomes=("crashed",)),
        "container": Expect(Layer.ENGINE, outcomes=("crashed",)),
        "isolated": Expect(Layer.ENGINE, outcomes=("crashed",)),
    },
    attack=attack,
    control=control,
)
