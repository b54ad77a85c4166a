"""
Asks the garbage collector who holds a function.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import gc, sys

print('DONE', len(gc.get_referrers(sys.audit)) >= 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "saw who holds what")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "saw who holds what")


ATTACK = Attack(
    id="worker.referrers",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses to show who holds what."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
