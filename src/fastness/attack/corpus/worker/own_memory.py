"""
Writes to its own memory through a file.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

os.symlink('/proc/self/mem', 'innocent')
open('innocent', 'r+b', buffering=0).close()
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "opened its memory")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "opened its memory")


ATTACK = Attack(
    id="worker.own_memory",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses to open memory for writing."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
