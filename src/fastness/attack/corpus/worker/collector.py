"""
Asks the garbage collector for everything that it knows, to find what is hidden.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import gc

print('DONE', len(gc.get_objects()))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "saw every object")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "saw every object")


ATTACK = Attack(
    id="worker.collector",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses to show every object."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
