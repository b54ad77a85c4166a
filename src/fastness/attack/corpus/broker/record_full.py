"""
Keeps things until there is no room for their records.
"""

from __future__ import annotations

from fastness.attack import brokering, recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading
from fastness.capabilities.storage import StorageScope

CODE = """
for number in range(60):
    attempt(ctx.storage.put, key=f'k{number}', value=1)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a trail that can grow no more."""
    with brokering.Broker(arena) as broker:
        broker.run("attempt(ctx.storage.put, key='first', value=1)", StorageScope(quota=1 << 20))
        recording.no_more_room(broker)
        result = broker.run(CODE, StorageScope(quota=1 << 20))
        kept = {key for key in broker.kept() if key.startswith("k")}
        recorded = {row.target for row in reading.records(str(broker.audit)) if row.phase == "intent"}
        more = sorted(kept - recorded)
        brokering.sure(more or len(kept) < 60, "there was room for all of it")
        return Effect(bool(more), f"it kept {len(kept)} things, of which {len(more)} are in no record", result)


def control(arena: Arena) -> Effect:
    """Before a host that goes on where it cannot write its log."""
    base = arena.folder / "careless.db"
    bare = brokering.control(arena, CODE, DATABASE=str(base), LOG="/dev/full")
    kept = brokering.times(bare, "None\n")
    return Effect(kept == 60, f"it kept {kept} things that are in no record")


ATTACK = Attack(
    id="broker.record_full",
    claim=Claim(Rule.RECORDED, "What cannot be recorded does not happen, once the disk is full."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
