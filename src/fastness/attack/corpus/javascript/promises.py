"""
Goes on by promises without end, so that no loop is there to be stopped.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const end = Date.now() + 800;
const next = () => (Date.now() < end ? Promise.resolve().then(next) : undefined);
await next();
while (Date.now() < end) { try { await Promise.reject(1); } catch { } }
console.log("SURVIVED");
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=0.4), "SURVIVED", "ran twice its limit")


def control(arena: Arena) -> Effect:
    """The same program with time enough."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=20), "SURVIVED", "ran twice its limit")


ATTACK = Attack(
    id="javascript.promises",
    claim=Claim(Guarantee.WALL_KILL, "Promises without end end at the time limit."),
    tiers={"wasm": Expect(Layer.LIMIT, outcomes=("timeout",))},
    attack=attack,
    control=control,
)
