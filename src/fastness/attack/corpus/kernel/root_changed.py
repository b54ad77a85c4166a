"""
Changes its root folder, the first step out of a changed root.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('chroot', b'.'))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "chroot"), "DONE", "had another root")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(arena, native.alone(native.program(CODE, "chroot")), "DONE", "had another root")


ATTACK = Attack(
    id="kernel.root_changed",
    claim=Claim(Guarantee.NO_PRIVILEGE, "The root cannot be changed."),
    tiers={"confined": refused("chroot"), "container": Expect(Layer.FILTER), "isolated": refused("chroot")},
    attack=attack,
    control=control,
)
