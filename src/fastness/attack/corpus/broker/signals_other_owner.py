"""
Takes the signals of another owner and of another plugin, and sends some to them, by every field that could name them.
"""

from __future__ import annotations

from fastness.attack import signalling
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.signals import SignalsScope

ALL = SignalsScope(publish=("*",), subscribe=("*",))
RECEIVERS = {"mine": [("plugin", ALL), ("plugin-other", ALL)], "other": [("plugin", ALL)]}
PLANTED = "\nctx.signals.publish(topic='mine.news', data=TOKEN, owner='other')\n"

CODE = """
for more in ({}, {'owner': 'other'}, {'plugin': 'plugin-other'}, {'of': 'owner'}, {'owner': 'mine/other'}):
    attempt(ctx.signals.take, most=100, **more)
    attempt(ctx.signals.publish, topic='mine.news', data='forged', **more)
attempt(ctx.signals.publish, topic='mine.news', data={'owner': 'other', 'text': 'forged'})
for text in (b'{"most": 100, "owner": "other"}', b'{"most": 100, "plugin": "plugin-other", "owner": "other"}'):
    by_hand('signals', 'take', text)
by_hand('signals', 'publish', b'{"topic": "mine.news", "data": "forged", "owner": "other"}')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, after the program has told another owner's plugins a secret, and those of the attacker's a word."""
    with signalling.Broker(arena, RECEIVERS) as broker:
        broker.signals.publish("other", "mine.news", arena.token)
        broker.signals.publish("mine", "mine.news", "plain")
        found = broker.run(CODE, ALL)
        leaked = arena.leaked(found)
        theirs = [one["data"] for one in broker.waiting("other", "plugin")]
        mine = broker.waiting("mine", "plugin-other")
    forged = theirs != [arena.token] or any("other" in str(one["data"]) for one in mine) or len(mine) < 2
    return Effect(leaked.happened or forged, f"{leaked.seen}; for the other owner {len(theirs)} waited", found)


def control(arena: Arena) -> Effect:
    """Before a host that believes what it is told of the owner."""
    signalling.control(arena, PLANTED, TOKEN=arena.token)
    return arena.leaked(signalling.control(arena, CODE))


ATTACK = Attack(
    id="broker.signals_other_owner",
    claim=Claim(
        Rule.OWNED, "Signals of one owner reach no plugin of another, and nobody takes those of another plugin."
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
