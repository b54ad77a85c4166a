"""
Calls native code through a module in an archive.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sys, zipfile

with zipfile.ZipFile('brought.zip', 'w') as archive:
    archive.writestr('packed.py', 'import ctypes as tools')
sys.path.insert(0, 'brought.zip')
import packed
print('DONE', packed.tools.CDLL(None).getpid() > 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "called native code")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "called native code")


ATTACK = Attack(
    id="worker.ctypes_by_archive",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `ctypes` to modules in archives."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
