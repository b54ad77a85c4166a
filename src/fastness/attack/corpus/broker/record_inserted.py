"""
Adds a record that nobody wrote, made of others.
"""

from __future__ import annotations

from fastness.attack import recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

SQL = """
INSERT INTO trail SELECT (SELECT max(seq) + 1 FROM trail), at, run, plugin, owner, capability, op, target, phase,
    decision, code, micros, bytes_in, bytes_out, intent, writer,
    (SELECT hash FROM trail ORDER BY seq DESC LIMIT 1), hash, cost, dropped
    FROM trail WHERE seq = 2;
"""


def attack(arena: Arena) -> Effect:
    """In the tier, whose run leaves records; then somebody who can write to the file, and has not the key."""
    return recording.tampered(arena, SQL)


def control(arena: Arena) -> Effect:
    """A trail without a chain: the same change, and a check of the file finds nothing."""
    return recording.control(arena, SQL)


ATTACK = Attack(
    id="broker.record_inserted",
    claim=Claim(Rule.RECORDED, "A record that nobody wrote is found."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
