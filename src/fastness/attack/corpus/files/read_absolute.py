"""
Reads a file of the machine by its absolute path.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, allowed
from fastness.tier import Guarantee

CODE = """
print(open(SECRET_FILE).read())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="files.read_absolute",
    claim=Claim(Guarantee.FS_CONFINED, "A file of this machine cannot be read by its absolute path."),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
        "worker": allowed("A guest reads every file that its user may read."),
    },
    attack=attack,
    control=control,
)
