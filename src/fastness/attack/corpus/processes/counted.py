"""
Looks whether there is a process of some number.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import os

print('COUNTED' if os.path.exists(f'/proc/{VICTIM}') else 'nobody there')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(_code(arena)), "COUNTED", "learnt of a process of this machine")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(_code(arena)), "COUNTED", "learnt of a process of this machine")


def _code(arena: Arena) -> str:
    return arena.python(CODE, VICTIM=arena.victim().pid)


SAYS = "A guest learns which numbers of processes are taken."
ATTACK = Attack(
    id="processes.counted",
    claim=Claim(Guarantee.PID_HIDDEN, SAYS),
    tiers=dict.fromkeys(("worker", "confined"), allowed(SAYS)),
    attack=attack,
    control=control,
)
