"""
Fills the disk in the folder for temporary files.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, tempfile, time

total = 0
folder = tempfile.mkdtemp()
for number in range(32):
    with open(os.path.join(folder, str(number)), 'wb', buffering=0) as file:
        total += file.write(b'x' * (1 << 20))
time.sleep(0.6)
print('FILLED', total)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE, limits={"file_bytes": 8 << 20})
    return arena.said(result, "FILLED", "wrote four times what it may and went on")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE.replace("tempfile.mkdtemp()", "'.'")), "FILLED", "wrote it")


ATTACK = Attack(
    id="limits.disk_in_temporary",
    claim=Claim(Guarantee.FS_CONFINED, "The folder for temporary files counts as the work folder does."),
    tiers={
        "confined": Expect(Layer.LIMIT, outcomes=("disk",)),
        "container": Expect(Layer.LIMIT, outcomes=("disk",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("disk",)),
    },
    attack=attack,
    control=control,
)
