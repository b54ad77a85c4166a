"""
Gives a function of the host arguments of other types than it declares.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
for amount, to in (('1', 'a'), (1.5, 'a'), (True, 'a'), (None, 'a'), ([1], 'a'), (1, b'a'), (1, {'a': 1}), (1, 2)):
    attempt(ctx.host.pay, amount=amount, to=to)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    got: list[object] = []

    def pay(amount: int, to: str) -> None:
        got.extend(one for one, kind in ((amount, int), (to, str)) if type(one) is not kind)

    with brokering.Broker(arena, functions={"pay": pay}) as broker:
        result = broker.run(CODE, brokering.host("pay"))
        return Effect(bool(got), f"it got {got}", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE)
    return Effect(brokering.times(bare, "GOT") == 8, f"it got {brokering.times(bare, 'GOT')} of 8")


ATTACK = Attack(
    id="broker.host_types",
    claim=Claim(Rule.GRANTED, "A function of the host gets arguments of the types that it declares, or is not called."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
