"""
Names a model that costs more than what was granted: as a tier, beside one, and by hand.
"""

from __future__ import annotations

from fastness.attack import models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.llm import LlmScope

#: Which model is the dear one is known to everybody.
CODE = """
for tier in ('strong', 'large', 'cheap/../strong', 'Strong', 'strong\\0', ['strong'], {'model': 'large'}, None):
    attempt(ctx.llm.ask, prompt='x', tier=tier)
attempt(ctx.llm.ask, prompt='x', tier='cheap', model='large')
attempt(ctx.llm.chat, messages=[{'role': 'user', 'content': 'x', 'model': 'large'}], tier='large')
for text in (b'{"prompt": "x", "tier": "cheap", "tier": "strong"}', b'{"prompt": "x", "model": "large"}',
             b'{"prompt": "x", "tier": "cheap", "extra_body": {"model": "large"}}'):
    by_hand('llm', 'ask', text)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where the cheap tier is granted."""
    server = models.serve(arena)
    with models.broker(arena, server) as broker:
        result = broker.run(CODE, LlmScope(tiers=("cheap",), budget=models.BUDGET))
    return _effect(server, result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = models.serve(arena)
    models.control(arena, CODE, server)
    return _effect(server)


def _effect(server: models.Models, result: object = None) -> Effect:
    dear = sum(asked["model"] != "small" for asked in server.asked)
    return Effect(dear > 0, f"another model was asked {dear} times", result)  # type: ignore[arg-type]  # a run's, or none


ATTACK = Attack(
    id="broker.llm_model_named",
    claim=Claim(Rule.GRANTED, "A plugin names a price tier that was granted, and no model."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "not_granted", calls=("ask",))
    ),
    attack=attack,
    control=control,
)
