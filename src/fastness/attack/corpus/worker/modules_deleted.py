"""
Forgets every module and imports them anew.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sys

for name in list(sys.modules):
    if name not in ('sys', 'builtins', '__main__'):
        del sys.modules[name]
import ctypes
print('DONE', ctypes.CDLL(None).getpid() > 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "called native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "called native code")


ATTACK = Attack(
    id="worker.modules_deleted",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses the same after all modules were forgotten."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
