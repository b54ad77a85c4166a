"""
Puts what it may not hold in memory into files that are in memory.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

held = []
for number in range(25):
    made = os.memfd_create('held')
    os.write(made, b'x' * (8 << 20))
    held.append(made)
print('HELD', len(held))
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return arena.said(arena.program(CODE, memory="64M", limits={"file_bytes": 8 << 20}), "HELD", "held 200 MiB")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "HELD", "held 200 MiB")


ATTACK = Attack(
    id="limits.memory_of_files",
    claim=Claim(Guarantee.TOTAL_MEM_CAP, "Files in memory count as memory."),
    tiers={
        "container": Expect(Layer.CGROUP, outcomes=("ok", "memory", "crashed", "guest_error")),
        "isolated": Expect(Layer.CGROUP, outcomes=("ok", "memory", "crashed", "guest_error")),
    },
    attack=attack,
    control=control,
)
