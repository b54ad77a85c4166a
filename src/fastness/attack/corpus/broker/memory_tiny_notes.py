"""
Keeps very many notes of one letter.
"""

from __future__ import annotations

from fastness.attack import brokering, models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities._memory_store import NOTE_OVERHEAD
from fastness.capabilities.memory import Memory, MemoryScope

QUOTA = 8 << 10
NOTES = 25
CODE = """
for number in range(60):
    attempt(ctx.memory.add, text='x')
"""


def attack(arena: Arena) -> Effect:
    """In the tier: with room for thirty-one by their size, and then for no more than twenty-five."""
    with models.broker(arena) as broker:
        first = broker.run(CODE, MemoryScope(notes=1000, quota=QUOTA))
        second = broker.run(CODE, MemoryScope(notes=NOTES, quota=1 << 20), owner="another")
        memory = Memory(str(broker.folder / "memory"))
        kept, others = len(models.noted(memory, "mine")), len(models.noted(memory, "another"))
    over = kept * NOTE_OVERHEAD > QUOTA or others > NOTES or not kept or not others
    return Effect(over, f"{kept} and {others} notes are kept", first, (second,))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = models.control(arena, CODE)
    kept = brokering.times(bare, "\n") - brokering.times(bare, "refused")
    return Effect(kept * NOTE_OVERHEAD > QUOTA and kept > NOTES, f"{kept} notes are kept")


ATTACK = Attack(
    id="broker.memory_tiny_notes",
    claim=Claim(Rule.BOUNDED, "Notes are counted, and each takes some room beside its text."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("add",))),
    attack=attack,
    control=control,
)
