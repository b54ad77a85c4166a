"""
Fills the disk.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
with open('big', 'wb') as file:
    for _ in range(64):
        file.write(b'x' * (1 << 20))
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a cap of 8 MiB."""
    result = arena.run(CODE, limits={"file_bytes": 8 << 20})
    size = sum(file.size for file in result.files.values())
    return Effect(size > 8 << 20, f"{size} bytes were written", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    arena.outside.run(CODE)
    size = (arena.work / "big").stat().st_size
    return Effect(size > 8 << 20, f"{size} bytes were written")


ATTACK = Attack(
    id="limits.disk_bytes",
    claim=Claim(Guarantee.FS_CONFINED, "Bytes in the work folder are capped."),
    tiers={
        "wasm": Expect(Layer.LIMIT, outcomes=("disk",)),
        "confined": Expect(Layer.LIMIT, outcomes=("disk",)),
        "container": Expect(Layer.LIMIT, outcomes=("disk",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("disk",)),
    },
    attack=attack,
    control=control,
)
