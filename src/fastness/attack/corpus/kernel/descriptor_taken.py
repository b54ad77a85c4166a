"""
Takes a descriptor out of another process, its own for want of another.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
process = call('pidfd_open', os.getpid(), 0)
told(call('pidfd_getfd', max(process, 0), 1, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "pidfd_open", "pidfd_getfd"), "DONE", "took a descriptor")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "pidfd_open", "pidfd_getfd"), "DONE", "took a descriptor")


ATTACK = Attack(
    id="kernel.descriptor_taken",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No descriptor can be taken out of a process."),
    tiers={"confined": refused("pidfd_getfd"), "container": Expect(Layer.FILTER), "isolated": refused("pidfd_getfd")},
    attack=attack,
    control=control,
)
