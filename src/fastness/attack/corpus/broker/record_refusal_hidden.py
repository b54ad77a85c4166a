"""
Makes a refusal an allowed call, and clears its code.
"""

from __future__ import annotations

from fastness.attack import recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

SQL = """
UPDATE trail SET decision = 'refused', code = '' WHERE seq = 5;
"""


def attack(arena: Arena) -> Effect:
    """In the tier, whose run leaves records; then somebody who can write to the file, and has not the key."""
    return recording.tampered(arena, SQL)


def control(arena: Arena) -> Effect:
    """A trail without a chain: the same change, and a check of the file finds nothing."""
    return recording.control(arena, SQL)


ATTACK = Attack(
    id="broker.record_refusal_hidden",
    claim=Claim(Rule.RECORDED, "A decision that was turned round is found."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
