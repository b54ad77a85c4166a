"""
Claims an attempt that it never made.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import sys

sys.audit('socket.connect', None, ('192.0.2.1', 80))
"""
_NOTES = """
import sys

sys.addaudithook(lambda event, arguments: print('NOTED', event) if event == 'socket.connect' else None)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE)
    claims = [row for row in result.denials if row.claimed]
    return Effect(bool(claims), f"it claimed {[row.operation for row in claims]}", result)


def control(arena: Arena) -> Effect:
    """The same program in an interpreter that notes what it is told."""
    return arena.said(arena.outside.run(_NOTES + CODE), "NOTED", "had noted what never was")


SAYS = "What a guest claims of itself may be false."
ATTACK = Attack(
    id="output.false_claim",
    claim=Claim(Guarantee.ADDRESS_SPACE, SAYS),
    tiers=dict.fromkeys(("wasm", "worker"), allowed(SAYS)),
    attack=attack,
    control=control,
)
