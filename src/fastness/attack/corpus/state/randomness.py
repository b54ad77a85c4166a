"""
Predicts the random numbers of one run from another's: warm guests are copies of each other.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, random, secrets, uuid

print(random.random(), os.urandom(8).hex(), secrets.token_hex(8), uuid.uuid4())
"""
#: What a pool of forked copies does when nobody reseeds them.
TWINS = """
import os, random, sys

random.seed()
for _ in range(2):
    pid = os.fork()
    if not pid:
        # Python reseeds by itself after a fork; other runtimes and libraries do not.
        random.setstate(state) if 'state' in globals() else None
        print(random.random(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, twice."""
    one, two = (arena.run(CODE).stdout.split() for _ in range(2))
    shared = sorted(set(one) & set(two))
    good = len(one) == len(two) == 4
    return Effect(bool(shared), f"shared: {', '.join(shared) or 'nothing'}" if good else "it did not print numbers")


def control(arena: Arena) -> Effect:
    """Two copies of one process whose generator nobody reseeds."""
    program = TWINS.replace("for _ in range(2):", "state = random.getstate()\nfor _ in range(2):", 1)
    one, two = arena.outside.run(program).stdout_bytes.split()
    return Effect(one == two, "both copies drew the same number" if one == two else "they differ")


ATTACK = Attack(
    id="state.randomness",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No two runs share random numbers, unless a seed is given."),
    tiers={
        "wasm": Expect(Layer.FRESH),
        "worker": Expect(Layer.FRESH),
        "confined": Expect(Layer.FRESH),
        "isolated": Expect(Layer.FRESH),
    },
    attack=attack,
    control=control,
)
