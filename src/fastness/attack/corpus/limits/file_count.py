"""
Makes files without end, until the machine has no inodes left.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
for number in range(5000):
    open(str(number), 'w').close()
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a cap of 1000."""
    result = arena.run(CODE, limits={"files": 1000})
    return Effect(len(result.files) > 1000, f"{len(result.files)} files were made", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    arena.outside.run(CODE)
    made = sum(1 for _ in arena.work.iterdir())
    return Effect(made > 1000, f"{made} files were made")


ATTACK = Attack(
    id="limits.file_count",
    claim=Claim(Guarantee.FS_CONFINED, "The number of files in the work folder is capped."),
    tiers={
        "wasm": Expect(Layer.LIMIT, outcomes=("disk",)),
        "confined": Expect(Layer.LIMIT, outcomes=("disk",)),
        "container": Expect(Layer.LIMIT, outcomes=("disk",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("disk",)),
    },
    attack=attack,
    control=control,
    slow=True,
)
