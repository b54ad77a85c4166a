"""
Makes a symbolic link to a file of the machine and reads through it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

os.symlink(SECRET_FILE, 'link')
print(open('link').read())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="files.read_by_symlink",
    claim=Claim(Guarantee.FS_CONFINED, "Symbolic links cannot be made, so none can lead out."),
    tiers={
        "wasm": Expect(Layer.WASI, "wasi_refused"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
