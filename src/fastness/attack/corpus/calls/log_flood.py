"""
Writes lines to the log without end.
"""

from __future__ import annotations

from fastness.attack import asking, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
line = {'level': 'info', 'text': 'x' * 4000}
for _ in range(9000):
    frame(0x45, line)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a caller who keeps every line; another run follows."""
    kept: list[int] = []
    result, _ = asking.ask(
        arena, CODE, on_event=lambda name, data: kept.append(len(str(data))) if name == "log" else None
    )
    served = serving.served(arena)
    return Effect(not served or sum(kept) > 4 << 20, f"{sum(kept) >> 10} KiB of lines came", result)


def control(arena: Arena) -> Effect:
    """Before a host that does as it is told."""
    return asking.harmed(arena, asking.Harm.HOARDED, CODE)


ATTACK = Attack(
    id="calls.log_flood",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Lines of a log are kept up to a cap."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
