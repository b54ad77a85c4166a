"""
Ends its process without a word.
"""

from __future__ import annotations

from fastness.attack import serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

os._exit(0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    return serving.after(arena, CODE)


def control(arena: Arena) -> Effect:
    """The same two programs where the executor is the interpreter itself."""
    return serving.in_process(arena, CODE)


ATTACK = Attack(
    id="limits.exit",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A guest that exits at once ends its own run and nothing else."),
    tiers={
        "wasm": Expect(Layer.ENGINE, outcomes=("ok",)),
        "worker": Expect(Layer.ENGINE, outcomes=("ok",)),
        "confined": Expect(Layer.ENGINE, outcomes=("ok",)),
        "container": Expect(Layer.ENGINE, outcomes=("ok",)),
        "isolated": Expect(Layer.ENGINE, outcomes=("ok",)),
    },
    attack=attack,
    control=control,
)
