"""
Makes a module of the interpreter's own anew, with all its functions as they were.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import _imp, importlib.machinery

posix = _imp.create_builtin(importlib.machinery.ModuleSpec('posix', None))
print('DONE', posix.pidfd_open(posix.getpid()))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "got the untouched module")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "got the untouched module")


ATTACK = Attack(
    id="worker.builtin_again",
    claim=Claim(
        Guarantee.ADDRESS_SPACE,
        "The module firewall refuses a second copy of a module whose functions it has taken out.",
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
