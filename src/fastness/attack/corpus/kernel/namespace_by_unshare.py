"""
Moves itself into a user namespace, where it has every capability.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('unshare', 0x10000000))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "unshare"), "DONE", "had a namespace")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "unshare"), "DONE", "had a namespace", root=True)


ATTACK = Attack(
    id="kernel.namespace_by_unshare",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No namespace can be had by `unshare`."),
    tiers={"confined": refused("unshare"), "container": Expect(Layer.FILTER), "isolated": refused("unshare")},
    attack=attack,
    control=control,
)
