"""
Sends signals that say of themselves for whom they are, what is to be done, when, and that somebody has agreed.
"""

from __future__ import annotations

from typing import Any

from fastness.attack import signalling
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading
from fastness.capabilities.signals import SignalsScope

RECEIVERS = {"mine": [("victim", SignalsScope(subscribe=("mine.*",)))]}
FORGED = ("action", "approved", "due_at", "owner")

CODE = """
for name, value in (('action', 'pay'), ('approved', True), ('due_at', 0), ('owner', 'other')):
    for data in ({name: value}, {'a': [{'b': {name: value, 'kept': 1}}]}, [[[[{name: {name: value}}]]]]):
        attempt(ctx.signals.publish, topic='mine.news', data=data)
for text in (b'{"topic": "mine.news", "data": {"a": 1, "approved": true, "approved": true}}',
             b'{"topic": "mine.news", "data": {"$": ["dict", "approved", true, "kept", 1]}}'):
    by_hand('signals', 'publish', text)
"""
ARRIVED = """
for one in ctx.signals.take()['signals']:
    if 'approved' in json.dumps(one['data']):
        print('ARRIVED', one, flush=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; then what came is looked through, and what the records say of it."""
    with signalling.Broker(arena, RECEIVERS) as broker:
        result = broker.run(CODE, signalling.SCOPE)
        came = [one["data"] for one in broker.waiting("mine", "victim")]
        counted = sum(row.dropped for row in reading.records(str(broker.audit)))
    forged = [one for one in came if _forged(one)]
    return Effect(
        bool(forged) or counted < len(came) or not came, f"{len(came)} came, {counted} fields dropped", result
    )


def _forged(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key in FORGED or _forged(one) for key, one in value.items())
    return isinstance(value, list) and any(map(_forged, value))


def control(arena: Arena) -> Effect:
    """Before a host that passes on what it gets."""
    return arena.said(signalling.control(arena, CODE + ARRIVED), "ARRIVED", "sent what says that it was approved")


ATTACK = Attack(
    id="broker.signals_forged_fields",
    claim=Claim(
        Rule.GRANTED, "No signal says of itself for whom it is, what is to be done, when, and that it is agreed."
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
