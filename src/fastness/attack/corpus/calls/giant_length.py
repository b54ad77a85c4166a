"""
Says that the arguments of a call are four gigabytes, and sends none of them.
"""

from __future__ import annotations

from fastness.attack import asking, engines, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import time
frame(0x43, {'id': 1, 'capability': 'notes', 'operation': 'read'}, blob_size=2**32 - 1)
time.sleep(5)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result, _ = asking.ask(arena, CODE)
    grown = max(engines.peaks().values(), default=0)
    served = serving.served(arena)
    return Effect(
        not served or grown > 2 << 30, f"next run served: {served}; the largest child had {grown >> 20} MiB", result
    )


def control(arena: Arena) -> Effect:
    """Before a host that does as it is told."""
    return asking.harmed(arena, asking.Harm.RESERVED, CODE)


ATTACK = Attack(
    id="calls.giant_length",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A length that a guest names makes nobody reserve anything."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("protocol",))),
    attack=attack,
    control=control,
    slow=True,
)
