"""
Goes on in what is called when its objects are collected.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const end = Date.now() + 800;
const registry = new FinalizationRegistry(() => {
  while (Date.now() < end) { try { while (Date.now() < end) {} } catch { } }
  console.log("SURVIVED");
});
(() => registry.register({}, "x"))();
std.gc();
await null;
await null;
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=0.4), "SURVIVED", "ran twice its limit")


def control(arena: Arena) -> Effect:
    """The same program with time enough."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=20), "SURVIVED", "ran twice its limit")


ATTACK = Attack(
    id="javascript.finalizers",
    claim=Claim(Guarantee.WALL_KILL, "A finalizer that never ends ends at the time limit."),
    tiers={"wasm": Expect(Layer.LIMIT, outcomes=("timeout",))},
    attack=attack,
    control=control,
)
