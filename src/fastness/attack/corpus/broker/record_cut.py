"""
Cuts off the last records.
"""

from __future__ import annotations

from fastness.attack import recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

SQL = """
DELETE FROM trail WHERE seq > (SELECT max(seq) - 2 FROM trail);
"""


def attack(arena: Arena) -> Effect:
    """In the tier, whose run leaves records; then somebody who can write to the file, and has not the key."""
    return recording.tampered(arena, SQL, anchored=True)


def control(arena: Arena) -> Effect:
    """A trail without a chain: the same change, and a check of the file finds nothing."""
    return recording.control(arena, SQL)


ATTACK = Attack(
    id="broker.record_cut",
    claim=Claim(Rule.RECORDED, "A tail that was cut off is found against an anchor."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
