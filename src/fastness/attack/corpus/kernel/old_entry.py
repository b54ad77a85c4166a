"""
Makes a system call by the entry for 32-bit programs, whose numbers are others.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = native.instructions(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    native.only_on("x86_64")
    return native.tried(arena, CODE, "LIVED", "lived through it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.lived(arena, CODE)


ATTACK = Attack(
    id="kernel.old_entry",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "The entry for 32-bit programs ends the process."),
    tiers={
        "confined": Expect(Layer.KILLED, outcomes=("crashed",)),
        "container": Expect(Layer.FILTER, outcomes=("crashed",)),
        "isolated": Expect(Layer.KILLED, outcomes=("crashed",)),
    },
    attack=attack,
    control=control,
)
