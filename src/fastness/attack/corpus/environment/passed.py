"""
Reads the variables that were passed to it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import os

print(os.environ['GIVEN'])
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(CODE, env={"GIVEN": arena.token}))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    arena.outside.env["GIVEN"] = arena.token
    return arena.leaked(arena.outside.run(CODE))


SAYS = "A guest sees the variables that were passed to it."
ATTACK = Attack(
    id="environment.passed",
    claim=Claim(Guarantee.ENV_SCRUBBED, SAYS),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "container", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
