"""
Asks fifty questions at once, so that each finds the whole budget.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

from fastness.attack import models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
together(50, prompt='x', tier='strong', max_tokens=100)
"""


def _slowly() -> models.Say:
    numbers = itertools.count()

    def say(_asked: dict[str, Any], _head: bytes) -> dict[str, Any]:
        # All of them are on their way before the first is answered.
        return {"before": lambda: time.sleep(0.0 if next(numbers) else 0.5)}

    return say


def attack(arena: Arena) -> Effect:
    """In the tier, with a budget for three; the service takes its time, and counts as much as it may."""
    server = models.serve(arena, _slowly())
    with models.broker(arena, server) as broker:
        result = broker.run(models.TOGETHER + CODE, models.SCOPE)
    went = len(server.asked)
    return Effect(went > models.QUESTIONS or not went, f"{went} questions were answered", result)


def control(arena: Arena) -> Effect:
    """Before a host that looks at what is spent, asks, and then writes down what it was."""
    server = models.serve(arena, _slowly())
    models.control(arena, models.TOGETHER_OUTSIDE + CODE, server, BUDGET=models.BUDGET)
    went = len(server.asked)
    return Effect(went > models.QUESTIONS, f"{went} questions were answered")


ATTACK = Attack(
    id="broker.llm_budget_raced",
    claim=Claim(Rule.BOUNDED, "Questions at once spend no more than the budget together."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("ask",))),
    attack=attack,
    control=control,
)
