"""
Compares the seed of hashes and the layout of memory of two runs.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import sys

print(hash('a text'), id(sys))
"""


def attack(arena: Arena) -> Effect:
    """Twice in the tier, for one tenant."""
    first, second = (arena.run(CODE) for _ in range(2))
    return Effect(
        first.ok and first.stdout == second.stdout,
        f"one run saw {first.stdout!r} and the next {second.stdout!r}",
        second,
    )


def control(arena: Arena) -> Effect:
    """Twice in one interpreter."""
    bare = arena.outside.in_process(CODE, CODE)
    lines = bare.stdout_bytes.splitlines()
    return Effect(len(lines) == 2 and lines[0] == lines[1], f"two programs saw {lines}")


SAYS = "Guests of one tenant have the hash seed and addresses in common until their zygote is replaced."
ATTACK = Attack(
    id="state.hash_seed",
    claim=Claim(Guarantee.ADDRESS_SPACE, SAYS),
    tiers=dict.fromkeys(("confined", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
