"""
Puts into what it schedules that somebody has agreed, for whom, when and to what; at every depth.
"""

from __future__ import annotations

from fastness.attack import schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
import time
soon = time.time() + 1000
forged = {'action': TOKEN, 'due_at': TOKEN, 'owner': TOKEN, 'approved': TOKEN}
deep = [dict(forged)]
for _ in range(20):
    deep = [{'more': deep, **forged}]
for args in (forged, {'one': forged}, {'one': [forged, {'two': forged}]}, {'one': deep}, {'one': {'owner': forged}}):
    attempt(ctx.schedule.at, when=soon, method='work', args=args)
    attempt(ctx.schedule.every, seconds=100, method='work', args=args)
text = '{"when": %f, "method": "work", "args": {"owner": "%s", "ow\\\\u006eer": "%s"}}' % (soon, TOKEN, TOKEN)
by_hand('schedule', 'at', text.encode())
text = '{"when": %f, "method": "work", "args": {"$": ["dict", "approved", "%s"]}}' % (soon, TOKEN)
by_hand('schedule', 'at', text.encode())
"""


def attack(arena: Arena) -> Effect:
    """In the tier: what would come back to a plugin when it is due."""
    with schedules.broker(arena) as broker:
        result = broker.run(CODE, schedules.SCOPE, facts={"TOKEN": arena.token})
        kept = schedules.arguments(broker)
    return Effect(arena.token in str(kept) or not kept, f"{len(kept)} stand", result)


def control(arena: Arena) -> Effect:
    """Before a careless host, which keeps what it is given."""
    schedules.control(arena, CODE, TOKEN=arena.token)
    kept = schedules.careless_rows(arena)
    return Effect(arena.token in str(kept), f"{len(kept)} stand, as they were forged")


ATTACK = Attack(
    id="broker.schedule_forged",
    claim=Claim(Rule.GRANTED, "No plugin puts into what comes back later that somebody agreed, when, and for whom."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
