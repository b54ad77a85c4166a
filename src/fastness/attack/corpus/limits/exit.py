"""
Ends its process without a word.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

os._exit(0)
"""
NEXT = "print('SERVED')"


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result = arena.run(CODE)
    after = arena.run(NEXT)
    served = after.stdout_bytes == b"SERVED\n"
    return Effect(not served, "the next run was served" if served else "the next run was not served", result)


def control(arena: Arena) -> Effect:
    """The same two programs where the executor is the interpreter itself."""
    bare = arena.outside.in_process(CODE, NEXT)
    served = b"SERVED" in bare.stdout_bytes
    return Effect(not served, "the next program was served" if served else "the executor died")


ATTACK = Attack(
    id="limits.exit",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A guest that exits at once ends its own run and nothing else."),
    tiers={
        "wasm": Expect(Layer.ENGINE, outcomes=("ok",)),
        "worker": Expect(Layer.ENGINE, outcomes=("ok",)),
        "confined": Expect(Layer.ENGINE, outcomes=("ok",)),
        "isolated": Expect(Layer.ENGINE, outcomes=("ok",)),
    },
    attack=attack,
    control=control,
)
