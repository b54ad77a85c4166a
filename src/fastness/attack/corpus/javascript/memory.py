"""
Takes memory without end, in arrays of bytes, texts and objects.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const held = [];
for (let count = 0; count < 12; count++) held.push(new Uint8Array(8 << 20).fill(1));
let text = "x";
while (text.length < 1 << 20) text += text;
held.push(text.split(""));
console.log("HELD", held.length);
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, runtime="javascript", memory="64M"), "HELD", "held 200 MiB")


def control(arena: Arena) -> Effect:
    """The same program with memory enough."""
    return arena.said(arena.run(CODE, runtime="javascript", memory="1G"), "HELD", "held 200 MiB")


ATTACK = Attack(
    id="javascript.memory",
    claim=Claim(Guarantee.MEM_CAP, "Memory of JavaScript past the limit is refused."),
    tiers={"wasm": Expect(Layer.LIMIT, outcomes=("memory",))},
    attack=attack,
    control=control,
)
