"""
Asks for more at once than a run may have under way.
"""

from __future__ import annotations

from fastness.attack import asking, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
for id in range(1, 400):
    call(id, 'notes', 'slow')
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result, desk = asking.ask(arena, CODE, timeout=0.7)
    served = serving.served(arena)
    return Effect(desk.most > asking.AT_ONCE or not served, f"{desk.most} were under way at once", result)


def control(arena: Arena) -> Effect:
    """Before a host that does as it is told."""
    return asking.harmed(arena, asking.Harm.CROWDED, CODE)


ATTACK = Attack(
    id="calls.more_at_once",
    claim=Claim(Guarantee.CRASH_CONTAINED, "No more calls are under way at once than a run may have."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("timeout",))),
    attack=attack,
    control=control,
    slow=True,
)
