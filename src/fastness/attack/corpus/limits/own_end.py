"""
Ends its own process by a fault.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import os

os.abort()
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE)
    return Effect(result.outcome.kind.value == "crashed", f"the run ended as {result.outcome.kind.value}", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    bare = arena.outside.run(CODE)
    return Effect((bare.status or 0) < 0, f"it ended with {bare.status}")


SAYS = "A guest ends its own process, and its run as crashed."
ATTACK = Attack(
    id="limits.own_end",
    claim=Claim(Guarantee.CRASH_CONTAINED, SAYS),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "container", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
