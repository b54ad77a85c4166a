"""
Makes a function of the host fail, whose error says what only the host knows.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
attempt(ctx.host.look, name='x')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""

    def look(name: str) -> str:
        raise LookupError(f"{name} is not in {arena.token}")

    with brokering.Broker(arena, functions={"look": look}) as broker:
        return arena.leaked(broker.run(CODE, brokering.host("look")))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    return arena.leaked(brokering.control(arena, CODE))


ATTACK = Attack(
    id="broker.host_errors",
    claim=Claim(Guarantee.ADDRESS_SPACE, "What goes wrong in the host is told to a guest without the host's words."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
