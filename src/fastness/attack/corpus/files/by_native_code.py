"""
Makes a file of the machine by calling the C library itself.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import ctypes

library = ctypes.CDLL(None)
print(library.creat(MARK_FILE.encode(), 0o600), library.mkdir(MARK_FILE.encode(), 0o700))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="files.by_native_code",
    claim=Claim(Guarantee.FS_CONFINED, "Native code makes no file of this machine either."),
    tiers={
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
