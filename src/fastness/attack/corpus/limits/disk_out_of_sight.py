"""
Fills the disk in a folder that nobody may look into.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, time

total = 0
os.mkdir('d', 0o300)
for number in range(32):
    held = os.open(f'd/{number}', os.O_WRONLY | os.O_CREAT)
    total += os.write(held, b'x' * (1 << 20))
    os.close(held)
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
    id="limits.disk_out_of_sight",
    claim=Claim(Guarantee.FS_CONFINED, "Files in a folder that cannot be listed count as all do."),
    tiers={"container": Expect(Layer.LIMIT, outcomes=("disk",)), "isolated": Expect(Layer.LIMIT, outcomes=("disk",))},
    attack=attack,
    control=control,
)
