"""
Asks the kernel about filters of system calls, the first step of laying one over a program that is to fail.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('seccomp', 2, 0, struct.pack('=I', 0x7FFF0000)))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "seccomp"), "DONE", "had an answer")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "seccomp"), "DONE", "had an answer")


ATTACK = Attack(
    id="kernel.filter_of_its_own",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No filter of system calls can be laid over another program."),
    tiers={"confined": refused("seccomp"), "container": Expect(Layer.FILTER), "isolated": refused("seccomp")},
    attack=attack,
    control=control,
)
