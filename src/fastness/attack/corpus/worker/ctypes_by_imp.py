"""
Calls native code, loaded with the interpreter's own function.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import _imp, importlib.machinery, importlib.util

spec = importlib.util.find_spec('_ctypes')
make = _imp.create_builtin if spec.origin == 'built-in' else _imp.create_dynamic
print('DONE', make(importlib.machinery.ModuleSpec('_ctypes', None, origin=spec.origin)))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "loaded native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "loaded native code")


ATTACK = Attack(
    id="worker.ctypes_by_imp",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `_ctypes` by the interpreter's own function."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
