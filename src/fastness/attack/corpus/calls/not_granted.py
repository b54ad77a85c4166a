"""
Asks by hand for what its ctx does not have: a file of this machine, by an adapter that would read it.
"""

from __future__ import annotations

from fastness.attack import asking
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
call(1, 'fs', 'read', {'path': SECRET_FILE})
print(answer())
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with nothing but notes granted."""
    return arena.leaked(asking.ask(arena, CODE)[0])


def control(arena: Arena) -> Effect:
    """Before a host that does as it is told."""
    return arena.leaked(asking.careless(arena, CODE))


ATTACK = Attack(
    id="calls.not_granted",
    claim=Claim(Guarantee.FS_CONFINED, "A call for what was not granted is refused, whoever in the guest makes it."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "not_granted")),
    attack=attack,
    control=control,
)
