"""
Asks for the keys of another owner and another plugin, by names that run together with their own.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.storage import StorageScope

QUOTA = 1 << 16
#: Names which, written one after another, begin with those of the attacker.
WHOSE = (("plugin", "mine/other"), ("plugin/mine", "more/mine"), ("plugin", "other"))
PLANTED = "\nctx.storage.put(key='name', value=TOKEN)\n"

CODE = """
for key in ('name', 'other/name', 'more/mine/name', '../name', '../../plugin/mine/other/name'):
    attempt(ctx.storage.get, key=key)
for prefix in ('', 'other', 'more', '..'):
    for key in (attempt(ctx.storage.list, prefix=prefix) or {'keys': []})['keys']:
        attempt(ctx.storage.get, key=key)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, after others have kept something."""
    with brokering.Broker(arena) as broker:
        for plugin, owner in WHOSE:
            broker.run(PLANTED, StorageScope(quota=QUOTA), owner=owner, plugin=plugin, facts={"TOKEN": arena.token})
        return arena.leaked(broker.run(CODE, StorageScope(quota=QUOTA)))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    base = str(arena.folder / "careless.db")
    for plugin, owner in WHOSE:
        brokering.control(arena, PLANTED, DATABASE=base, PLUGIN=plugin, OWNER=owner, TOKEN=arena.token)
    bare = brokering.control(arena, CODE, DATABASE=base)
    return brokering.every(arena, bare, 2)


ATTACK = Attack(
    id="broker.storage_other_owner",
    claim=Claim(Rule.OWNED, "What is kept for one plugin and owner is found by no other."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
