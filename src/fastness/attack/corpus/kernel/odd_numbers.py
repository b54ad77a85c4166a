"""
Makes a system call by the numbers of another ABI (x32), which compare as none of the list.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = native.instructions(b"\xb8\x27\x00\x00\x40\x0f\x05\xc3")


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    native.only_on("x86_64")
    return native.tried(arena, CODE, "LIVED", "lived through it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.lived(arena, CODE)


ATTACK = Attack(
    id="kernel.odd_numbers",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Calls by numbers of another ABI end the process."),
    tiers={
        "confined": Expect(Layer.KILLED, outcomes=("crashed",)),
        "container": Expect(Layer.FILTER, outcomes=("crashed",)),
        "isolated": Expect(Layer.KILLED, outcomes=("crashed",)),
    },
    attack=attack,
    control=control,
)
