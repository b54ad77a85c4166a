"""
Changes a mount's attributes, to none in particular.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('mount_setattr', -100, b'/', 0, bytes(32), 32))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "mount_setattr"), "DONE", "changed the mount")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(arena, native.alone(native.program(CODE, "mount_setattr")), "DONE", "changed the mount")


ATTACK = Attack(
    id="kernel.mount_changed",
    claim=Claim(Guarantee.NO_PRIVILEGE, "No mount can be made writable."),
    tiers={
        "confined": refused("mount_setattr"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("mount_setattr"),
    },
    attack=attack,
    control=control,
)
