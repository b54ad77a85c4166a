"""
Asks to handle page faults itself, which lets it stop the kernel in the middle of a copy.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('userfaultfd', 1))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "userfaultfd"), "DONE", "had the descriptor")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "userfaultfd"), "DONE", "had the descriptor")


ATTACK = Attack(
    id="kernel.userfaultfd",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No page fault can be handled by a guest."),
    tiers={"confined": refused("userfaultfd"), "container": Expect(Layer.FILTER), "isolated": refused("userfaultfd")},
    attack=attack,
    control=control,
)
