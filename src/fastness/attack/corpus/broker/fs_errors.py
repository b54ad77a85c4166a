"""
Makes calls fail, to read in the errors where the host keeps things.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.capabilities.storage import StorageScope
from fastness.tier import Guarantee

CODE = """
attempt(ctx.fs.read, path='missing')
attempt(ctx.fs.read, path='missing/' * 60 + 'x' * 250)
attempt(ctx.fs.list, path='missing')
attempt(ctx.fs.write, path='missing/name', data=b'x')
attempt(ctx.fs.write, path='', data=b'x')
attempt(ctx.fs.delete, path='.')
attempt(ctx.storage.get, key='x' * 600)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, FsScope(read=True, write=True), StorageScope(quota=1 << 16))
        told = str(broker.folder) in result.stdout or str(arena.folder) in result.stdout
        return Effect(told, "an error named a place" if told else "no error named a place", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE, DATABASE=str(arena.folder / "missing" / "careless.db"))
    told = brokering.times(bare, str(arena.folder)) > 0
    return Effect(told, "an error named a place" if told else "no error named a place")


ATTACK = Attack(
    id="broker.fs_errors",
    claim=Claim(Guarantee.ENV_SCRUBBED, "No error of a call tells where the host keeps what is asked for."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
