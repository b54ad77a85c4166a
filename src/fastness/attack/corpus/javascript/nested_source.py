"""
Has source text, data and calls nested deeper than any stack.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

NEXT = "console.log('SERVED')"
CODES = (
    "eval('['.repeat(200000))",
    "JSON.parse('['.repeat(2000000))",
    "std.exit(0)",
)


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows each."""
    results = []
    for code in CODES:
        results.append(arena.run(code, runtime="javascript"))
        if arena.run(NEXT, runtime="javascript").stdout != "SERVED\n":
            return Effect(True, "the next run was not served", results[-1])
    return Effect(False, "the next runs were served", results[0], tuple(results[1:]))


def control(arena: Arena) -> Effect:
    """The same, with what follows in the same run."""
    served = [arena.run(f"{code};{NEXT}", runtime="javascript").stdout == "SERVED\n" for code in CODES]
    return Effect(not any(served), f"what followed was served: {served}")


ATTACK = Attack(
    id="javascript.nested_source",
    claim=Claim(Guarantee.CRASH_CONTAINED, "What brings an engine of JavaScript down ends its own run and no other."),
    tiers={"wasm": Expect(Layer.ENGINE, outcomes=("crashed", "ok"))},
    attack=attack,
    control=control,
)
