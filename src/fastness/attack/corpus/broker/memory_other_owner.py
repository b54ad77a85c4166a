"""
Looks for the notes of another owner and of another plugin, by every field that could name them.
"""

from __future__ import annotations

from fastness.attack import models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

#: Names which, written one after another, begin with those of the attacker.
WHOSE = (("plugin", "other"), ("plugin", "mine/other"), ("plugin-other", "mine"))
PLANTED = "\nctx.memory.add(text=f'secret {TOKEN}', tags=['secret'])\n"

CODE = """
for more in ({}, {'owner': 'other'}, {'plugin': 'plugin-other'}, {'of': 'owner'}, {'owner': 'mine/other'}):
    attempt(ctx.memory.search, words='secret', **more)
    attempt(ctx.memory.list, tags=['secret'], **more)
    attempt(ctx.memory.list, **more)
    for number in range(1, 4):
        attempt(ctx.memory.get, id=number, **more)
for text in (b'{"words": "secret", "owner": "other"}', b'{"words": "secret", "path": "../other/p-plugin.db"}'):
    by_hand('memory', 'search', text)
for text in (b'{"owner": "other"}', b'{"plugin": "plugin-other"}', b'{"of": "owner", "tags": ["secret"]}'):
    by_hand('memory', 'list', text)
for text in (b'{"id": 1, "owner": "other"}', b'{"id": 1, "plugin": "plugin-other"}'):
    by_hand('memory', 'get', text)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, after others have noted something."""
    with models.broker(arena) as broker:
        for plugin, owner in WHOSE:
            broker.run(PLANTED, models.MEMORY, owner=owner, plugin=plugin, facts={"TOKEN": arena.token})
        return arena.leaked(broker.run(CODE, models.MEMORY))


def control(arena: Arena) -> Effect:
    """Before a host that believes what it is told of the owner."""
    for plugin, owner in WHOSE:
        models.control(arena, PLANTED, PLUGIN=plugin, OWNER=owner, TOKEN=arena.token)
    return arena.leaked(models.control(arena, CODE))


ATTACK = Attack(
    id="broker.memory_other_owner",
    claim=Claim(Rule.OWNED, "What one plugin noted for an owner is found by no other, whatever it is asked with."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
