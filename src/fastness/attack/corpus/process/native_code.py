"""
Loads the C library and calls into it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import ctypes

library = ctypes.CDLL(None)
print(library.creat(MARK_FILE.encode(), 0o600))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="process.native_code",
    claim=Claim(Guarantee.NO_SYSCALLS, "No native code can be loaded or called."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
