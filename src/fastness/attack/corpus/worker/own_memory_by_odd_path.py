"""
Writes to its own memory through a file whose path is a kind of text of its own.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

class Path(str):
    pass

os.close(os.open(Path('/proc/self/mem'), os.O_RDWR))
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "opened its memory")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "opened its memory")


ATTACK = Attack(
    id="worker.own_memory_by_odd_path",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The module firewall refuses to open memory for writing by a path of any kind."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
