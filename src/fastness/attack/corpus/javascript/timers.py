"""
Goes on by timers without end, and by waiting.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const end = Date.now() + 800;
await new Promise((resolve) => {
  const again = () => (Date.now() < end ? setTimeout(again, 0) : resolve());
  setImmediate(again);
});
os.sleep(100);
console.log("SURVIVED");
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=0.4), "SURVIVED", "ran twice its limit")


def control(arena: Arena) -> Effect:
    """The same program with time enough."""
    return arena.said(arena.run(CODE, runtime="javascript", timeout=20), "SURVIVED", "ran twice its limit")


ATTACK = Attack(
    id="javascript.timers",
    claim=Claim(Guarantee.WALL_KILL, "Timers without end end at the time limit."),
    tiers={"wasm": Expect(Layer.LIMIT, outcomes=("timeout",))},
    attack=attack,
    control=control,
)
