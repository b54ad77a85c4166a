"""
Schedules what is no method of its own: another plugin's, the host's, and names that lead elsewhere.
"""

from __future__ import annotations

from fastness.attack import schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
import time
soon = time.time() + 1000
names = ['elsewhere', 'other.plugin:work', 'other.plugin/work', '../other/work', '__init__', 'work\\0', ' work', 'WORK']
for name in names:
    attempt(ctx.schedule.at, when=soon, method=name)
    attempt(ctx.schedule.every, seconds=100, method=name)
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
    id="broker.schedule_method_of_others",
    claim=Claim(Rule.OWNED, "A plugin schedules methods of its own manifest and nothing else."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "absent", calls=("at",))),
    attack=attack,
    control=control,
)
