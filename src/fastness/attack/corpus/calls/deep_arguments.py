"""
Sends arguments, and words about a call, that are nested deeper than a parser can follow.
"""

from __future__ import annotations

from fastness.attack import asking, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
call(1, 'notes', 'large', b'{"size":' + b'[' * 200000 + b']' * 200000 + b'}')
answer()
frame(0x43, b'[' * 60000 + b']' * 60000)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result, _ = asking.ask(arena, CODE)
    served = serving.served(arena)
    return Effect(not served, f"the next run was {'served' if served else 'not served'}", result)


def control(arena: Arena) -> Effect:
    """Before a host that does as it is told."""
    return asking.harmed(arena, asking.Harm.FELL, CODE)


ATTACK = Attack(
    id="calls.deep_arguments",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Arguments cannot be too deep for the host."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("protocol",))),
    attack=attack,
    control=control,
)
