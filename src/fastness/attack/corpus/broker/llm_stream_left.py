"""
Reads streams nearly to their end and leaves them, so that nobody counts what they were.
"""

from __future__ import annotations

from typing import Any

from fastness.attack import models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
for number in range(12):
    stream = attempt(ctx.llm.stream, messages=[{'role': 'user', 'content': 'x'}], tier='strong', max_tokens=100)
    if stream is not None:
        attempt(ctx.llm.read, stream)
        if number % 2:
            attempt(ctx.llm.close, stream)
"""


def _slowly(_asked: dict[str, Any], _head: bytes) -> dict[str, Any]:
    return {"pieces": ["a", "b", "c"], "between_s": 0.02}


def attack(arena: Arena) -> Effect:
    """In the tier, with a budget for three."""
    server = models.serve(arena, _slowly)
    with models.broker(arena, server) as broker:
        result = broker.run(CODE, models.SCOPE)
    went = len(server.asked)
    return Effect(went > models.QUESTIONS or not went, f"{went} streams were begun", result)


def control(arena: Arena) -> Effect:
    """Before a host that counts when a stream has come to its end."""
    server = models.serve(arena, _slowly)
    models.control(arena, CODE, server, BUDGET=models.BUDGET)
    went = len(server.asked)
    return Effect(went > models.QUESTIONS, f"{went} streams were begun")


ATTACK = Attack(
    id="broker.llm_stream_left",
    claim=Claim(Rule.BOUNDED, "A stream that is not read to its end costs the most that it can."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("stream",))),
    attack=attack,
    control=control,
)
