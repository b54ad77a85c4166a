"""
Computes without end, in JavaScript.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const end = Date.now() + 3000;
while (Date.now() < end) { try { while (Date.now() < end) {} } catch (error) {} }
console.log("SURVIVED");
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=1), "SURVIVED", "ran three times its limit")


def control(arena: Arena) -> Effect:
    """The same program with time enough; no JavaScript engine of the machine's is needed for that."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=20), "SURVIVED", "ran three times its limit")


ATTACK = Attack(
    id="limits.javascript_loop",
    claim=Claim(Guarantee.WALL_KILL, "A loop in JavaScript ends at the time limit."),
    tiers={"wasm": Expect(Layer.LIMIT, outcomes=("timeout",))},
    attack=attack,
    control=control,
    slow=True,
)
