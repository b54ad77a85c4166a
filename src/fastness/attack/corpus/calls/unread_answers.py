"""
Asks for large answers and reads none of them.
"""

from __future__ import annotations

from fastness.attack import asking, engines, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
for id in range(1, 400):
    call(id, 'notes', 'large', {'size': 2000000})
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    arena.run("pass")
    before = engines.peak() or 0
    result, _ = asking.ask(arena, CODE, timeout=2)
    grown = (engines.peak() or 0) - before
    served = serving.served(arena)
    seen = f"next run served: {served}, {grown >> 20} MiB more here"
    return Effect(not served or grown > 160 << 20, seen, result)


def control(arena: Arena) -> Effect:
    """Before a host that does as it is told."""
    return asking.harmed(arena, asking.Harm.HOARDED, CODE)


ATTACK = Attack(
    id="calls.unread_answers",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Answers that a guest does not read are bounded."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("timeout",))),
    attack=attack,
    control=control,
    slow=True,
)
