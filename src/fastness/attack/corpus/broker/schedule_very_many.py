"""
Schedules itself as often as it can: ten million times, or for as long as nobody minds.
"""

from __future__ import annotations

from fastness.attack import schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
import time
soon, ends, gone = time.time() + 1000, time.time() + 1, 0
for number in range(10_000_000):
    try:
        ctx.schedule.at(when=soon + number / 1e6, method='work') if number % 2 else ctx.schedule.every(100, 'work')
    except Exception:
        gone += 1
    if gone > 10 or time.time() > ends or number > 500:
        break
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where twenty were granted."""
    with schedules.broker(arena) as broker:
        result = broker.run(CODE, schedules.SCOPE)
        found = len(schedules.standing(broker))
    return Effect(found > schedules.STANDING or not found, f"{found} stand", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    schedules.control(arena, CODE)
    found = len(schedules.careless_rows(arena))
    return Effect(found > schedules.STANDING, f"{found} stand")


ATTACK = Attack(
    id="broker.schedule_very_many",
    claim=Claim(Rule.BOUNDED, "No more stand at once than were granted, however they are put on."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("at",))),
    attack=attack,
    control=control,
)
