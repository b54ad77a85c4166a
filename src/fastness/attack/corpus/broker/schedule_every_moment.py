"""
Has itself called every 0 seconds, and every moment in other words.
"""

from __future__ import annotations

from fastness.attack import schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
for seconds in (0, 0.0, -1, -0.0, 1e-300, 0.001, 59.999, float('nan'), float('-inf'), False):
    attempt(ctx.schedule.every, seconds=seconds, method='work')
by_hand('schedule', 'every', b'{"seconds": 0, "method": "work"}')
by_hand('schedule', 'every', b'{"seconds": "0", "method": "work"}')
by_hand('schedule', 'every', b'{"seconds": 60, "seconds": 0, "method": "work"}')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where a minute was granted."""
    with schedules.broker(arena) as broker:
        result = broker.run(CODE, schedules.SCOPE)
        found = schedules.standing(broker)
    return Effect(bool(found), f"{len(found)} stand", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    schedules.control(arena, CODE)
    found = [row for row in schedules.careless_rows(arena) if not float(row["every"]) >= schedules.INTERVAL_S]
    return Effect(len(found) > 5, f"{len(found)} stand that come too often")


ATTACK = Attack(
    id="broker.schedule_every_moment",
    claim=Claim(Rule.BOUNDED, "No plugin is called more often than every so many seconds, as was granted."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "rate", calls=("every",))),
    attack=attack,
    control=control,
)
