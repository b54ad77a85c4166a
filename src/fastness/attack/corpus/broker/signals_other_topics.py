"""
Publishes topics that it was not granted, by names that could be read as such as it was.
"""

from __future__ import annotations

from fastness.attack import signalling
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.signals import SignalsScope

RECEIVERS = {"mine": [("victim", SignalsScope(subscribe=("admin.*", "*admin*")))]}

CODE = r"""
for topic in ('admin.grant', 'mine.x\nadmin.grant', '*', 'ADMIN.grant', 'mine.*|admin.grant', 'mine./../admin.grant',
              ' admin.grant', 'mine.\x00admin.grant', 'ad\u200bmin.grant', ''):
    attempt(ctx.signals.publish, topic=topic, data='forged')
by_hand('signals', 'publish', b'{"topic": "admin.grant", "data": "forged"}')
by_hand('signals', 'publish', b'{"topic": "mine.x", "topic": "admin.grant", "data": "forged"}')
by_hand('signals', 'publish', b'{"topic": ["mine.x", "admin.grant"], "data": "forged"}')
"""
ARRIVED = "\nfor one in ctx.signals.take(topic='admin.%')['signals']:\n    print('ARRIVED', one, flush=True)\n"


def attack(arena: Arena) -> Effect:
    """In the tier; then what waits for one that receives those topics is looked at."""
    with signalling.Broker(arena, RECEIVERS) as broker:
        result = broker.run(CODE, signalling.SCOPE)
        came = [one["topic"] for one in broker.waiting("mine", "victim")]
    return Effect(bool(came), f"there came {came}", result)


def control(arena: Arena) -> Effect:
    """Before a host with one list of topics for all."""
    return arena.said(signalling.control(arena, CODE + ARRIVED), "ARRIVED", "published what it was not granted")


ATTACK = Attack(
    id="broker.signals_other_topics",
    claim=Claim(Rule.GRANTED, "A plugin publishes no topic that its grant does not list, however it is written."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "not_granted", calls=("publish",))
    ),
    attack=attack,
    control=control,
)
