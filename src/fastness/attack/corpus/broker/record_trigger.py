"""
Has the database change each record as it is written.
"""

from __future__ import annotations

from fastness.attack import recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

SQL = """
CREATE TRIGGER quiet AFTER INSERT ON trail BEGIN UPDATE trail SET target = 'harmless' WHERE seq = new.seq; END;
UPDATE trail SET target = 'harmless' WHERE seq = 3;
"""


def attack(arena: Arena) -> Effect:
    """In the tier, whose run leaves records; then somebody who can write to the file, and has not the key."""
    return recording.tampered(arena, SQL)


def control(arena: Arena) -> Effect:
    """A trail without a chain: the same change, and a check of the file finds nothing."""
    return recording.control(arena, SQL)


ATTACK = Attack(
    id="broker.record_trigger",
    claim=Claim(Rule.RECORDED, "A trigger that is not ours is found, and nothing more is written."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
