"""
Changes its own interpreter, and so its own result.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import builtins

builtins.len = lambda what: 'CHANGED'
print(len([]))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE), "CHANGED", "changed its own interpreter")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "CHANGED", "changed its own interpreter")


SAYS = "A guest changes its own interpreter, and with it whatever it says."
ATTACK = Attack(
    id="state.own_interpreter",
    claim=Claim(Guarantee.ADDRESS_SPACE, SAYS),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "container", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
