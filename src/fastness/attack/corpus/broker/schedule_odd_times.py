"""
Schedules itself in the past, in 300 years, in the hour that clocks have twice, and at what is no time.
"""

from __future__ import annotations

from fastness.attack import schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
import time
now = time.time()
odd = [now - 3600, 0, -1, -1e18, now + 300 * 366 * 86400, now + 32 * 86400, 1e300, float('nan'), float('inf')]
odd += ['2326-11-30T12:00:00Z', '1970-01-01T00:00:00Z', '9999-12-31T23:59:59-23:59', '0001-01-01T00:00:00+23:59']
odd += ['2026-10-25T02:30:00', '2026-03-29T02:30:00', '2027-01-01', 'now', '', '2027-01-01T00:00:00Z\\0', '24:00']
for when in odd:
    attempt(ctx.schedule.at, when=when, method='work')
    attempt(ctx.schedule.every, seconds=86400, method='work', first=when)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with schedules.broker(arena) as broker:
        result = broker.run(CODE, schedules.SCOPE)
        found = schedules.standing(broker)
    return Effect(bool(found), f"{len(found)} stand", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    schedules.control(arena, CODE)
    found = schedules.careless_rows(arena)
    return Effect(len(found) > 10, f"{len(found)} stand")


ATTACK = Attack(
    id="broker.schedule_odd_times",
    claim=Claim(Rule.BOUNDED, "A time is an instant within what was granted; no other is kept, and none is guessed."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "outside", calls=("at",))),
    attack=attack,
    control=control,
)
