"""
Makes its memory readable for other processes of its user.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
told(call('prctl', 4, 1, 0, 0, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "prctl"), "DONE", "was open to others", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "prctl"), "DONE", "was open to others")


ATTACK = Attack(
    id="kernel.dumpable",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code cannot open its memory to others."),
    tiers={"confined": refused("prctl"), "isolated": refused("prctl")},
    attack=attack,
    control=control,
)
