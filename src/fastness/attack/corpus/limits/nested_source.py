"""
Hands over source text that is nested deeper than a compiler likes.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

DEPTH = 100_000
NEXT = "print('SERVED')"
SAME = """
import sys, threading

# A host that parses in its own process and has raised the recursion limit, as many must.
sys.setrecursionlimit(10**9)
def descend(depth):
    return 1 + descend(depth - 1) if depth else 0
threading.stack_size(1 << 20)
thread = threading.Thread(target=lambda: repr(nest(200_000)))
def nest(depth):
    made = []
    for _ in range(depth):
        made = [made]
    return made
thread.start()
thread.join()
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result = arena.run("(" * DEPTH + ")" * DEPTH)
    after = arena.run(NEXT)
    served = after.stdout_bytes == b"SERVED\n"
    return Effect(not served, "the next run was served" if served else "the next run was not served", result)


def control(arena: Arena) -> Effect:
    """Deep recursion in the process that is to serve the next program."""
    bare = arena.outside.in_process(SAME, NEXT)
    served = b"SERVED" in bare.stdout_bytes
    return Effect(not served, "the next program was served" if served else "the executor died")


ATTACK = Attack(
    id="limits.nested_source",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Source text cannot bring down what compiles it."),
    tiers={
        "wasm": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
        "worker": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
        "confined": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
        "isolated": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
    },
    attack=attack,
    control=control,
)
