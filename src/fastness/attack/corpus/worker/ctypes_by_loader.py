"""
Calls native code, loaded with a loader of the library's.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import importlib.machinery, importlib.util

spec = importlib.util.find_spec('_ctypes')
if spec.origin == 'built-in':
    module = importlib.machinery.BuiltinImporter.create_module(spec)
else:
    loader = importlib.machinery.ExtensionFileLoader('some._ctypes', spec.origin)
    module = loader.create_module(importlib.machinery.ModuleSpec('some._ctypes', loader, origin=spec.origin))
print('DONE', module)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "loaded native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "loaded native code")


ATTACK = Attack(
    id="worker.ctypes_by_loader",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `_ctypes` by a loader used directly."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
