"""
Takes memory that is hidden from the kernel itself.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('memfd_secret', 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "memfd_secret"), "DONE", "had the descriptor")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "memfd_secret"), "DONE", "had the descriptor")


ATTACK = Attack(
    id="kernel.secret_memory",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No memory can be hidden from the kernel."),
    tiers={"confined": refused("memfd_secret"), "container": Expect(Layer.FILTER), "isolated": refused("memfd_secret")},
    attack=attack,
    control=control,
)
