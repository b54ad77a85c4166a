"""
Calls native code, imported step by step.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import importlib.util, sys

spec = importlib.util.find_spec('_ctypes')
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print('DONE', module.dlopen(None, 0) != 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "loaded native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "loaded native code")


ATTACK = Attack(
    id="worker.ctypes_by_spec",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `ctypes` made from its specification."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
