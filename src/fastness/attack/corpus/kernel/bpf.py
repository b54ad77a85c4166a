"""
Loads a map of the kernel's own virtual machine.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('bpf', 0, struct.pack('=IIII', 2, 4, 4, 1) + bytes(112), 128))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "bpf"), "DONE", "made a map")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "bpf"), "DONE", "made a map", root=True)


ATTACK = Attack(
    id="kernel.bpf",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "The kernel's virtual machine takes nothing from a guest."),
    tiers={"confined": refused("bpf"), "container": Expect(Layer.FILTER), "isolated": refused("bpf")},
    attack=attack,
    control=control,
)
