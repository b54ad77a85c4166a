"""
Keeps something while another process holds the audit trail.
"""

from __future__ import annotations

from fastness.attack import brokering, recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.storage import StorageScope

CODE = """
attempt(ctx.storage.put, key='a', value=1)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with brokering.Broker(arena) as broker, recording.held(broker):
        result = broker.run(CODE, StorageScope(quota=1 << 16))
        kept = sorted(broker.kept()) if (broker.folder / "storage.db").exists() else []
        return Effect(bool(kept), f"it kept {kept} and nothing says so", result)


def control(arena: Arena) -> Effect:
    """Before a host that goes on where it cannot write its log."""
    base = arena.folder / "careless.db"
    # A folder: nothing can be written there.
    bare = brokering.control(arena, CODE, DATABASE=str(base), LOG=str(arena.folder))
    kept = brokering.times(bare, "None\n")
    return Effect(kept > 0, f"it kept {kept} things and nothing says so")


ATTACK = Attack(
    id="broker.record_locked",
    claim=Claim(Rule.RECORDED, "What cannot be recorded does not happen, while another process holds the trail."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
