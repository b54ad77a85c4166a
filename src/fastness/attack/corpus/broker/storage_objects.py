"""
Keeps bytes that do something when they are read as an object.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.storage import StorageScope
from fastness.tier import Guarantee

CODE = """
import pickle

class Evil:
    def __reduce__(self):
        return (open, (MARK_FILE, 'w'))

data = pickle.dumps(Evil())
# Whatever the module is called that has it here.
for data in (data, data.replace(b'_pyio', b'io')):
    attempt(ctx.storage.put, key='key', value=data)
    attempt(ctx.storage.get, key='key')
    attempt(ctx.storage.put, key='key', value={'$': ['object', 'pickle', data]})
    attempt(ctx.storage.get, key='key')
"""


def attack(arena: Arena) -> Effect:
    """In the tier; the host keeps it and gives it back."""
    with brokering.Broker(arena) as broker:
        return arena.marked(broker.run(CODE, StorageScope(quota=1 << 16)))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    return arena.marked(brokering.control(arena, CODE, DATABASE=str(arena.folder / "careless.db")))


ATTACK = Attack(
    id="broker.storage_objects",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Nothing that a guest sends is read as an object."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
