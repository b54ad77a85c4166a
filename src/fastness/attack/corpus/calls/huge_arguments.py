"""
Sends a hundred megabytes as the arguments of a call, all of them.
"""

from __future__ import annotations

from fastness.attack import asking, engines, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
part = b'x' * (1 << 20)
frame(0x43, {'id': 1, 'capability': 'notes', 'operation': 'read'}, b'', blob_size=100 << 20)
try:
    for _ in range(100):
        put(part)
except OSError:
    pass
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    before = engines.peak() or 0
    result, desk = asking.ask(arena, CODE)
    grown = (engines.peak() or 0) - before
    served = serving.served(arena)
    seen = f"next run served: {served}, {grown >> 20} MiB more here"
    return Effect(not served or grown > 64 << 20 or desk.most > 0, seen, result)


def control(arena: Arena) -> Effect:
    """Before a host that does as it is told."""
    return asking.harmed(arena, asking.Harm.COLLECTED, CODE)


ATTACK = Attack(
    id="calls.huge_arguments",
    claim=Claim(
        Guarantee.CRASH_CONTAINED, "Arguments past their cap are not taken in, whether their length is true or not."
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("protocol",))),
    attack=attack,
    control=control,
)
