"""
Changes a record, and seals it and all that follow with a key of its own.
"""

from __future__ import annotations

from fastness.attack import recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

SQL = """
UPDATE trail SET target = 'harmless' WHERE seq = 3;
"""


def attack(arena: Arena) -> Effect:
    """In the tier, whose run leaves records; then somebody who can write to the file, and has not the key."""
    return recording.tampered(arena, SQL, key=bytes(32))


def control(arena: Arena) -> Effect:
    """A trail without a chain: the same change, and a check of the file finds nothing."""
    return recording.control(arena, SQL)


ATTACK = Attack(
    id="broker.record_resealed",
    claim=Claim(Rule.RECORDED, "A trail that was sealed with another key is found."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
