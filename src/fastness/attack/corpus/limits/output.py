"""
Writes output without end; a host that keeps it all runs out of memory.
"""

from __future__ import annotations

from typing import Any

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sys

for _ in range(64):
    sys.stdout.write('x' * (1 << 20))
sys.stdout.flush()
"""
_ALL = 64 << 20


def attack(arena: Arena) -> Effect:
    """In the tier, with a cap of 8 MiB."""
    came = [0]

    def count(name: str, data: Any) -> None:
        if name == "stdout":
            came[0] += len(data)

    result = arena.run(CODE, limits={"output_total_bytes": 8 << 20}, on_event=count)
    kept = len(result.stdout_bytes)
    return Effect(came[0] > (8 << 20) + (1 << 16) or kept > 1 << 21, f"{came[0]} bytes came, {kept} were kept", result)


def control(arena: Arena) -> Effect:
    """The same program, read until it ends."""
    size = len(arena.outside.run(CODE).stdout_bytes)
    return Effect(size >= _ALL, f"{size} bytes came and were kept")


ATTACK = Attack(
    id="limits.output",
    claim=Claim(Guarantee.OUTPUT_CAP, "Output past the cap ends the run and is not kept."),
    tiers={
        "wasm": Expect(Layer.LIMIT, outcomes=("output_limit",)),
        "worker": Expect(Layer.LIMIT, outcomes=("output_limit",)),
        "confined": Expect(Layer.LIMIT, outcomes=("output_limit",)),
        "container": Expect(Layer.LIMIT, outcomes=("output_limit",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("output_limit",)),
    },
    attack=attack,
    control=control,
)
