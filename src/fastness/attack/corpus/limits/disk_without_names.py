"""
Fills the disk with files that have no name any more.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, time

total, held = 0, []
for number in range(8):
    held.append(os.open('x', os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    os.unlink('x')
    for _ in range(4):
        total += os.write(held[-1], b'x' * (1 << 20))
time.sleep(0.6)
print('FILLED', total)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE, limits={"file_bytes": 8 << 20})
    return arena.said(result, "FILLED", "wrote four times what it may and went on")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "FILLED", "wrote it")


ATTACK = Attack(
    id="limits.disk_without_names",
    claim=Claim(Guarantee.FS_CONFINED, "Files without a name count as those that have one."),
    tiers={"container": Expect(Layer.LIMIT, outcomes=("disk",)), "isolated": Expect(Layer.LIMIT, outcomes=("disk",))},
    attack=attack,
    control=control,
)
