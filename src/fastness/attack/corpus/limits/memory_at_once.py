"""
Asks for more memory than the machine has, in one call.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
size = 200 << 20
print('HELD', len(bytearray(size)))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE), memory="64M"), "HELD", "held 200 MiB")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "HELD", "held 200 MiB")


ATTACK = Attack(
    id="limits.memory_at_once",
    claim=Claim(Guarantee.MEM_CAP, "One huge allocation is refused."),
    tiers={
        "wasm": Expect(Layer.LIMIT, outcomes=("memory",)),
        "worker": Expect(Layer.LIMIT, outcomes=("memory",)),
        "confined": Expect(Layer.LIMIT, outcomes=("memory",)),
        "container": Expect(Layer.LIMIT, outcomes=("memory",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("memory",)),
    },
    attack=attack,
    control=control,
)
