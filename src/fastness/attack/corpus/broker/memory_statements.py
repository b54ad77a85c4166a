"""
Looks for words that mean something to the index: its columns, its operators, and the end of what stands around them.
"""

from __future__ import annotations

from fastness.attack import models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

PLANTED = "\nctx.memory.add(text=f'secret {TOKEN}')\n"

CODE = """
ctx.memory.add(text='of my own')
for words in ('owner : other', 'x OR owner : other', '"x" OR text : secret', 'NOT nothing', '* OR secret', 'secret*',
              '{text owner} : secret', 'NEAR(secret other)', '") OR (text : secret', "' OR 1=1 --"):
    attempt(ctx.memory.search, words=words)
    attempt(ctx.memory.search, words=words, any=True)
    attempt(ctx.memory.search, words='x', tags=[words])
    attempt(ctx.memory.list, tags=[words])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, after another owner has noted something."""
    with models.broker(arena) as broker:
        broker.run(PLANTED, models.MEMORY, owner="other", facts={"TOKEN": arena.token})
        result = broker.run(CODE, models.MEMORY)
        whole = b"refused" not in result.stdout_bytes
        found = arena.leaked(result)
    # Each of them is a text like others, and no error either.
    return found if whole else Effect(True, "the index read some of it as its own language", result)


def control(arena: Arena) -> Effect:
    """Before a host whose queries are made of text."""
    models.control(arena, PLANTED, OWNER="other", TOKEN=arena.token)
    return arena.leaked(models.control(arena, CODE))


ATTACK = Attack(
    id="broker.memory_statements",
    claim=Claim(Rule.OWNED, "What is looked for are words, whatever they mean to the index."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
