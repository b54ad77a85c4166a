"""
Asks for keys that are statements of a database.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.storage import StorageScope

QUOTA = 1 << 16
PLANTED = "\nctx.storage.put(key='name', value=TOKEN)\n"

CODE = """
for key in ("x' OR '1'='1", "x' UNION SELECT value FROM kept --", "x' UNION SELECT value FROM items --"):
    attempt(ctx.storage.get, key=key)
    attempt(ctx.storage.list, prefix="x%' OR key LIKE '%")
attempt(ctx.storage.list, prefix='%')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, after another owner has kept something."""
    with brokering.Broker(arena) as broker:
        broker.run(PLANTED, StorageScope(quota=QUOTA), owner="other", facts={"TOKEN": arena.token})
        return arena.leaked(broker.run(CODE, StorageScope(quota=QUOTA)))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    base = str(arena.folder / "careless.db")
    brokering.control(arena, PLANTED, DATABASE=base, OWNER="other", TOKEN=arena.token)
    return arena.leaked(brokering.control(arena, CODE, DATABASE=base))


ATTACK = Attack(
    id="broker.storage_statements",
    claim=Claim(Rule.OWNED, "A key is a key, whatever is in it."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
