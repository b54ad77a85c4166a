"""
Chooses another scheduling policy.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('sched_setscheduler', 0, 3, struct.pack('=i', 0)))
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "sched_setscheduler"), "DONE", "had another policy", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "sched_setscheduler"), "DONE", "had another policy")


ATTACK = Attack(
    id="kernel.scheduling",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code cannot choose how it is scheduled."),
    tiers={
        "confined": refused("sched_setscheduler"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("sched_setscheduler"),
    },
    attack=attack,
    control=control,
)
