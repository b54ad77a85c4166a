"""
Calls native code through a module of the library that imports it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
from multiprocessing import sharedctypes

print('DONE', sharedctypes.ctypes.CDLL(None).getpid() > 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "called native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "called native code")


ATTACK = Attack(
    id="worker.ctypes_by_standard_library",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `ctypes` to the library too."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
