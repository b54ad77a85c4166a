"""
Calls native code through a module that it has brought.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
open('brought.py', 'w').write('import ctypes as tools')
import sys
sys.path.insert(0, '.')
import brought
print('DONE', brought.tools.CDLL(None).getpid() > 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "called native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "called native code")


ATTACK = Attack(
    id="worker.ctypes_by_dependency",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `ctypes` to modules that are imported."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
