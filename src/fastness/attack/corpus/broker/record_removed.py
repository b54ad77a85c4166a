"""
Removes records, and numbers those that follow anew.
"""

from __future__ import annotations

from fastness.attack import recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

SQL = """
DELETE FROM trail WHERE seq IN (3, 4);
UPDATE trail SET seq = -seq WHERE seq > 4;
UPDATE trail SET seq = -seq - 2 WHERE seq < 0;
"""


def attack(arena: Arena) -> Effect:
    """In the tier, whose run leaves records; then somebody who can write to the file, and has not the key."""
    return recording.tampered(arena, SQL)


def control(arena: Arena) -> Effect:
    """A trail without a chain: the same change, and a check of the file finds nothing."""
    return recording.control(arena, SQL)


ATTACK = Attack(
    id="broker.record_removed",
    claim=Claim(Rule.RECORDED, "Records that were removed are found, by their numbers or by their neighbours."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
