"""
Asks, and hears, what nobody else is to read.
"""

from __future__ import annotations

from typing import Any

from fastness.attack import brokering, models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading

CODE = """
attempt(ctx.llm.ask, prompt=f'what is {TOKEN}?', tier='strong')
attempt(ctx.llm.chat, messages=[{'role': role, 'content': TOKEN} for role in ('system', 'user')], tier='strong')
attempt(ctx.llm.ask, prompt=TOKEN, tier=TOKEN)
attempt(ctx.llm.ask, prompt=TOKEN, tier='strong', stop=[TOKEN])
stream = attempt(ctx.llm.stream, messages=[{'role': 'user', 'content': TOKEN}], tier='strong')
if stream is not None:
    attempt(ctx.llm.read, stream)
"""


def _saying(arena: Arena) -> models.Say:
    def say(_asked: dict[str, Any], _head: bytes) -> dict[str, Any]:
        return {"text": f"it is {arena.token}", "usage": {"prompt_tokens": 1, "completion_tokens": 9}}

    return say


def attack(arena: Arena) -> Effect:
    """In the tier; then all files of the audit trail and of the ledger are searched."""
    server = models.serve(arena, _saying(arena))
    with models.broker(arena, server) as broker:
        result = broker.run(CODE, models.SCOPE, facts={"TOKEN": arena.token})
        rows = len(list(reading.records(str(broker.audit))))
        kept = any(brokering.anywhere(broker.folder, arena.token, name) for name in ("audit*", "usage*"))
    return Effect(kept or rows < 8 or len(server.asked) < 3, f"{rows} rows, {'with' if kept else 'without'} it", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = models.serve(arena, _saying(arena))
    models.control(arena, CODE, server, TOKEN=arena.token, LOG=str(arena.folder / "careless.log"))
    kept = brokering.anywhere(arena.folder, arena.token, "careless.log")
    return Effect(kept, f"the log is {'with' if kept else 'without'} it")


ATTACK = Attack(
    id="broker.llm_words_recorded",
    claim=Claim(Rule.RECORDED, "No record has a word of what a model is asked or answers."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
