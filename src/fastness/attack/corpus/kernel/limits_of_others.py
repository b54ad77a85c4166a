"""
Reads the limits of the process that started it, by the call that also sets them.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('prlimit64', os.getppid() or 2, 7, None, ctypes.create_string_buffer(16)))
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "prlimit64"), "DONE", "read them", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "prlimit64"), "DONE", "read them")


ATTACK = Attack(
    id="kernel.limits_of_others",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Limits of other processes can be neither read nor set."),
    tiers={"confined": refused("prlimit64"), "container": Expect(Layer.FILTER), "isolated": refused("prlimit64")},
    attack=attack,
    control=control,
)
