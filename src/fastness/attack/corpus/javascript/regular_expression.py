"""
Has one regular expression compared for longer than a whole run may take.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
for (let length = 16; ; length++) {
  const began = Date.now();
  /^(a+)+$/.test("a".repeat(length) + "b");
  if (Date.now() - began > 600) break;
}
console.log("SURVIVED");
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=0.4), "SURVIVED", "outlived its limit in one call")


def control(arena: Arena) -> Effect:
    """The same program with time enough."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=20), "SURVIVED", "outlived its limit in one call")


ATTACK = Attack(
    id="javascript.regular_expression",
    claim=Claim(Guarantee.WALL_KILL, "One endless comparison of native code in JavaScript ends at the time limit."),
    tiers={"wasm": Expect(Layer.LIMIT, outcomes=("timeout",))},
    attack=attack,
    control=control,
)
