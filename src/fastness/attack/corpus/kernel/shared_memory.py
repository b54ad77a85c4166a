"""
Makes shared memory (System V) that outlives its process and that nobody counts.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
made = call('shmget', 0, 4096, 0o600)
call('shmctl', made, 0, 0) if made >= 0 else None
told(made)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "shmget", "shmctl"), "DONE", "made shared memory")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "shmget", "shmctl"), "DONE", "made shared memory")


ATTACK = Attack(
    id="kernel.shared_memory",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No shared memory of System V can be made."),
    tiers={"confined": refused("shmget"), "container": Expect(Layer.FILTER), "isolated": refused("shmget")},
    attack=attack,
    control=control,
)
