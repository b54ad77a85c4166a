"""
Makes a process in a user namespace, where it has every capability.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
child = call('clone', 0x10000011, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
told(child)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "clone"), "DONE", "had a process there")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "clone"), "DONE", "had a process there", root=True)


ATTACK = Attack(
    id="kernel.namespace_by_clone",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No namespace can be had by `clone`."),
    tiers={"confined": refused("clone"), "container": Expect(Layer.FILTER), "isolated": refused("clone")},
    attack=attack,
    control=control,
)
