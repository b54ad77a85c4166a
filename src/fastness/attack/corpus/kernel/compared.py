"""
Compares the kernel's objects of two processes, which tells of their addresses.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('kcmp', os.getpid(), os.getpid(), 0, 1, 1))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "kcmp"), "DONE", "compared them")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "kcmp"), "DONE", "compared them")


ATTACK = Attack(
    id="kernel.compared",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Objects of the kernel cannot be compared."),
    tiers={"confined": refused("kcmp"), "container": Expect(Layer.FILTER), "isolated": refused("kcmp")},
    attack=attack,
    control=control,
)
