"""
Sends signals without an end to one that others send to as well.
"""

from __future__ import annotations

from fastness.attack import signalling
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.signals import SignalsScope

PLACES = 20
RECEIVERS = {"mine": [("victim", SignalsScope(subscribe=("mine.*",), queue=PLACES))]}

CODE = """
for number in range(140):
    attempt(ctx.signals.publish, topic='mine.storm', data=number)
"""
COUNTED = "\nprint('CAME', len(ctx.signals.take()['signals']), flush=True)\n"


def attack(arena: Arena) -> Effect:
    """In the tier; then the program sends one, and what waits is counted."""
    with signalling.Broker(arena, RECEIVERS) as broker:
        result = broker.run(CODE, signalling.SCOPE)
        broker.signals.publish("mine", "mine.news", "heard")
        queue = next(one for one in broker.signals.queues("mine") if one.plugin == "victim")
        heard = broker.waiting("mine", "victim")[-1]["data"] == "heard"
    over = queue.waiting > PLACES or not heard or not queue.dropped
    return Effect(over, f"{queue.waiting} wait, {queue.dropped} were dropped; another's is there: {heard}", result)


def control(arena: Arena) -> Effect:
    """Before a host that keeps whatever comes."""
    bare = signalling.control(arena, CODE + COUNTED)
    return arena.said(bare, "CAME 140", "had all of them kept")


ATTACK = Attack(
    id="broker.signals_storm",
    claim=Claim(Rule.BOUNDED, "A storm of signals ends, fills no queue, and keeps nobody else's out."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("publish",))),
    attack=attack,
    control=control,
)
