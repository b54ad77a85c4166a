"""
Copies a part of the tree as a mount of its own.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('open_tree', -100, b'.', 1))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "open_tree"), "DONE", "copied the mount")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(arena, native.alone(native.program(CODE, "open_tree")), "DONE", "copied the mount")


ATTACK = Attack(
    id="kernel.mount_copied",
    claim=Claim(Guarantee.NO_PRIVILEGE, "No part of the tree can be mounted again."),
    tiers={"confined": refused("open_tree"), "container": Expect(Layer.FILTER), "isolated": refused("open_tree")},
    attack=attack,
    control=control,
)
