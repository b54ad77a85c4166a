"""
Calls a function of the host that is registered and was not granted to it.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
if hasattr(ctx.host, 'secret'):
    attempt(ctx.host.secret)
by_hand('host', 'secret', b'{}')
"""


def _safe() -> str:
    return "nothing"


def attack(arena: Arena) -> Effect:
    """In the tier, with another function granted."""
    functions = {"safe": _safe, "secret": lambda: arena.token}
    with brokering.Broker(arena, functions=functions) as broker:
        return arena.leaked(broker.run(CODE, brokering.host("safe")))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    return arena.leaked(brokering.control(arena, CODE))


ATTACK = Attack(
    id="broker.host_not_granted",
    claim=Claim(Rule.GRANTED, "Only functions that were granted by name are called."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "not_granted", calls=("secret",))
    ),
    attack=attack,
    control=control,
)
