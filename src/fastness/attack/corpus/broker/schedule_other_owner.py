"""
Takes off what others have scheduled, and schedules in their name, by every field that could name them.
"""

from __future__ import annotations

from fastness.attack import schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

OTHERS = (("plugin", "other"), ("other", "mine"))
PLANTED = "\nctx.schedule.at(when=time.time() + 1000, method='work')\n"
CODE = """
import time
soon = time.time() + 1000
names = ({}, {'owner': 'other'}, {'plugin': 'other'}, {'owner': 'mine/other'}, {'due_at': 0, 'approved': True})
for more in names:
    for number in (1, 2, 3):
        attempt(ctx.schedule.cancel, id=number, **more)
    attempt(ctx.schedule.list, **more)
    if more:
        attempt(ctx.schedule.at, when=soon, method='work', **more)
        attempt(ctx.schedule.every, seconds=100, method='work', **more)
for name in ('owner', 'plugin'):
    text = '{"when": %f, "method": "work", "%s": "other"}' % (soon, name)
    by_hand('schedule', 'at', text.encode())
by_hand('schedule', 'cancel', b'{"id": 1, "owner": "other"}')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where others have something scheduled."""
    with schedules.broker(arena) as broker:
        for plugin, owner in OTHERS:
            broker.run("\nimport time" + PLANTED, schedules.SCOPE, plugin=plugin, owner=owner)
        result = broker.run(CODE, schedules.SCOPE)
        found = sorted(schedules.standing(broker))
    return Effect(found != sorted(OTHERS), f"what stands is that of {found}", result)


def control(arena: Arena) -> Effect:
    """Before a host that believes what it is told of the owner."""
    schedules.control(arena, "\nOWNER = 'other'" + PLANTED + "\nOWNER = 'mine'\n" + CODE)
    others = [row for row in schedules.careless_rows(arena) if row["owner"] == "other" and row["id"] > 1]
    return Effect(bool(others), f"{len(others)} were scheduled in the name of another")


ATTACK = Attack(
    id="broker.schedule_other_owner",
    claim=Claim(Rule.OWNED, "What a plugin scheduled for an owner no other takes off, and none schedules in its name."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
