"""
Makes a semaphore (System V) that outlives its process.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
made = call('semget', 0, 1, 0o600)
call('semctl', made, 0, 0, 0) if made >= 0 else None
told(made)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "semget", "semctl"), "DONE", "made a semaphore")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "semget", "semctl"), "DONE", "made a semaphore")


ATTACK = Attack(
    id="kernel.semaphore",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No semaphore of System V can be made."),
    tiers={"confined": refused("semget"), "container": Expect(Layer.FILTER), "isolated": refused("semget")},
    attack=attack,
    control=control,
)
