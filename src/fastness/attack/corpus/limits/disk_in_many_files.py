"""
Fills the disk with many files, none of which is large.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, time

total = 0
os.mkdir('d')
for number in range(64):
    with open(f'd/{number}', 'wb', buffering=0) as file:
        total += file.write(b'x' * (1 << 20))
time.sleep(0.6)
print('FILLED', total)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE, limits={"file_bytes": 8 << 20})
    return arena.said(result, "FILLED", "wrote eight times what it may and went on")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "FILLED", "wrote it")


ATTACK = Attack(
    id="limits.disk_in_many_files",
    claim=Claim(Guarantee.FS_CONFINED, "Bytes of many files count together."),
    tiers={
        "confined": Expect(Layer.LIMIT, outcomes=("disk",)),
        "container": Expect(Layer.LIMIT, outcomes=("disk",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("disk",)),
    },
    attack=attack,
    control=control,
)
