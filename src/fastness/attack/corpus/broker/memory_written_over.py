"""
Changes and deletes what another plugin noted, where the two share an owner's memory.
"""

from __future__ import annotations

from fastness.attack import models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.memory import Memory, MemoryScope

SCOPE = MemoryScope(notes=100, quota=1 << 20, of="owner")
PLANTED = "\nctx.memory.add(text='the door is locked at ten')\n"

CODE = """
notes = (attempt(ctx.memory.list) or {'notes': []})['notes']
for note in notes:
    attempt(ctx.memory.update, id=note['id'], text='the door is never locked')
    attempt(ctx.memory.update, id=note['id'], text='the door is never locked', plugin='other')
    attempt(ctx.memory.delete, id=note['id'])
for text in (ctx.memory.list() or {'notes': []})['notes'] or ['NOTHING']:
    print('LEFT', text['excerpt'] if isinstance(text, dict) else text, flush=True)
for note in notes:
    by_hand('memory', 'update', b'{"id": %d, "text": "the door is never locked", "plugin": "other"}' % note['id'])
    by_hand('memory', 'delete', b'{"id": %d, "plugin": "other"}' % note['id'])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, after another plugin has noted something."""
    with models.broker(arena) as broker:
        broker.run(PLANTED, SCOPE, plugin="other")
        result = broker.run(CODE, SCOPE)
        left = models.noted(Memory(str(broker.folder / "memory")), "mine", "other")
    return Effect(list(left) != ["the door is locked at ten"], f"what is left: {left}", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    models.control(arena, PLANTED, PLUGIN="other")
    return arena.said(models.control(arena, CODE), "LEFT NOTHING", "deleted another one's note")


ATTACK = Attack(
    id="broker.memory_written_over",
    claim=Claim(Rule.OWNED, "A plugin changes and deletes no note that another one wrote."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "read_only", calls=("update", "delete"))
    ),
    attack=attack,
    control=control,
)
