"""
Takes memory that is shared between processes and counted for none of them.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import mmap

held = []
for _ in range(25):
    piece = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_SHARED)
    piece.write(b'x' * (8 << 20))
    held.append(piece)
print('HELD', len(held))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, memory="64M", limits={"file_bytes": 8 << 20}), "HELD", "held 200 MiB")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "HELD", "held 200 MiB")


ATTACK = Attack(
    id="limits.memory_shared",
    claim=Claim(Guarantee.MEM_CAP, "Shared memory counts as all memory does."),
    tiers={
        "confined": Expect(Layer.LIMIT, outcomes=("guest_error", "memory")),
        "container": Expect(Layer.LIMIT, outcomes=("guest_error", "memory")),
        "isolated": Expect(Layer.LIMIT, outcomes=("guest_error", "memory")),
    },
    attack=attack,
    control=control,
)
