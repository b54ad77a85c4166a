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
_TWINS = """
import os, random, sys

state = random.getstate()
for _ in range(2):
    pid = os.fork()
    if not pid:
        # Python reseeds by itself after a fork; other runtimes and libraries do not.
        random.setstate(state)
        exec(CODE)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, twice."""
    one, two = (arena.run(CODE).stdout.split() for _ in range(2))
    shared = sorted(set(one) & set(two))
    if not len(one) == len(two) == 4:
        raise RuntimeError("it did not print numbers")
    return Effect(bool(shared), f"shared: {', '.join(shared) or 'nothing'}")


def control(arena: Arena) -> Effect:
    """The same program in two copies of one process whose generator nobody reseeds."""
    lines = arena.outside.run(f"CODE = {CODE!r}\n{_TWINS}").stdout_bytes.split(b"\n")
    same = len(lines) > 1 and bool(set(lines[0].split()) & set(lines[1].split()))
    return Effect(same, "both copies drew the same number" if same else "they differ")


ATTACK = Attack(
    id="state.randomness",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No two runs share random numbers, unless a seed is given."),
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
