"""
Calls native code in a module that is run, not imported.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import importlib.util, runpy

space = runpy.run_path(importlib.util.find_spec('ctypes').origin)
print('DONE', space['CDLL'](None).getpid() > 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "called native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "called native code")


ATTACK = Attack(
    id="worker.ctypes_by_runpy",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `ctypes` where it is run."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
