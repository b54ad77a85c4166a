"""
Notes, and looks for, what nobody else is to read.
"""

from __future__ import annotations

from fastness.attack import brokering, models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading

CODE = """
number = attempt(ctx.memory.add, text=TOKEN, tags=[TOKEN])
attempt(ctx.memory.search, words=TOKEN)
attempt(ctx.memory.search, words='x', tags=[TOKEN])
attempt(ctx.memory.list, tags=[TOKEN])
attempt(ctx.memory.update, id=number, text=f'more {TOKEN}')
attempt(ctx.memory.get, id=TOKEN)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; then all files of the audit trail are searched."""
    with models.broker(arena) as broker:
        result = broker.run(CODE, models.MEMORY, facts={"TOKEN": arena.token})
        rows = len(list(reading.records(str(broker.audit))))
        kept = brokering.anywhere(broker.folder, arena.token, "audit*")
    return Effect(kept or rows < 10, f"{rows} rows, {'with' if kept else 'without'} it", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    models.control(arena, CODE, TOKEN=arena.token, LOG=str(arena.folder / "careless.log"))
    kept = brokering.anywhere(arena.folder, arena.token, "careless.log")
    return Effect(kept, f"the log is {'with' if kept else 'without'} it")


ATTACK = Attack(
    id="broker.memory_words_recorded",
    claim=Claim(Rule.RECORDED, "No record has a word of a note or of a search."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
