"""
Asks a service that says that its answers cost nothing, or gives money back.
"""

from __future__ import annotations

import itertools
from typing import Any

from fastness.attack import models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
for _ in range(12):
    attempt(ctx.llm.ask, prompt='x', tier='strong', max_tokens=100)
"""
#: What such a service says that it counted.
LIES: tuple[dict[str, int], ...] = (
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": -1000, "completion_tokens": -1000},
    {"prompt_tokens": 5, "completion_tokens": 0},
    {},
)


def _lying() -> models.Say:
    lies = itertools.cycle(LIES)

    def say(_asked: dict[str, Any], _head: bytes) -> dict[str, Any]:
        return {"usage": next(lies)}

    return say


def attack(arena: Arena) -> Effect:
    """In the tier, with a budget for three."""
    server = models.serve(arena, _lying())
    with models.broker(arena, server) as broker:
        result = broker.run(CODE, models.SCOPE)
    went = len(server.asked)
    return Effect(went > models.QUESTIONS or not went, f"{went} questions were answered", result)


def control(arena: Arena) -> Effect:
    """Before a host that believes the service."""
    server = models.serve(arena, _lying())
    models.control(arena, CODE, server, BUDGET=models.BUDGET)
    went = len(server.asked)
    return Effect(went > models.QUESTIONS, f"{went} questions were answered")


ATTACK = Attack(
    id="broker.llm_counted_falsely",
    claim=Claim(Rule.BOUNDED, "An answer whose price cannot be so costs the most that it can."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("ask",))),
    attack=attack,
    control=control,
)
