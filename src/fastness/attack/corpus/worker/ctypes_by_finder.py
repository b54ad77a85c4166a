"""
Calls native code, found by a finder of its own.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import importlib.machinery, importlib.util, sys

spec = importlib.util.find_spec('_ctypes')

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return spec if name == 'harmless' else None

sys.meta_path.insert(0, Finder)
import harmless
print('DONE', harmless)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "loaded native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "loaded native code")


ATTACK = Attack(
    id="worker.ctypes_by_finder",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `_ctypes` by a finder of the guest's own."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
