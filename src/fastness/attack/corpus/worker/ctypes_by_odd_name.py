"""
Calls native code, imported by a name that is a kind of text of its own.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
class Name(str):
    pass

ctypes = __import__(Name('_ctypes'))
print('DONE', ctypes.sizeof)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "loaded native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "loaded native code")


ATTACK = Attack(
    id="worker.ctypes_by_odd_name",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `_ctypes` by a name of any kind."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
