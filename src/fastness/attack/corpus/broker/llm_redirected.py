"""
Has a service send the question on to what only the inside may reach.
"""

from __future__ import annotations

from typing import Any

from fastness.attack import models, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.llm import LlmScope

CODE = """
attempt(ctx.llm.ask, prompt='x')
"""


def _sending(where: str) -> models.Say:
    def say(_asked: dict[str, Any], _head: bytes) -> dict[str, Any]:
        return {"whole": servers.moved(where)}

    return say


def attack(arena: Arena) -> Effect:
    """In the tier."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    server = models.serve(arena, _sending(inside.url))
    with models.broker(arena, server) as broker:
        result = broker.run(CODE, LlmScope(tiers=("cheap",), budget=models.BUDGET))
    came = inside.reached() or arena.leaked(result).happened
    return Effect(came or not server.asked, "the inside was asked" if came else "nobody asked the inside", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    server = models.serve(arena, _sending(inside.url))
    return arena.leaked(models.control(arena, CODE, server))


ATTACK = Attack(
    id="broker.llm_redirected",
    claim=Claim(Rule.GRANTED, "A question goes where the operator said, and nowhere that this one sends it."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
