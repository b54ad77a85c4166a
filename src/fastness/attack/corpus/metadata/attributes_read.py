"""
Reads the extended attributes of a file of the machine.
"""

from __future__ import annotations

from fastness.attack import library
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

for what in (TARGET, os.open(TARGET, os.O_RDONLY)):
    try:
        print(os.getxattr(what, 'user.kept'), os.listxattr(what))
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read."""
    return arena.leaked(library.given(arena, CODE, library.make(arena, attribute=True)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(library.program(CODE, library.make(arena, attribute=True))))


ATTACK = Attack(
    id="metadata.attributes_read",
    claim=Claim(Guarantee.FS_CONFINED, "No attribute of a file of this machine can be read."),
    tiers={"confined": Expect(Layer.ABSENT), "isolated": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
