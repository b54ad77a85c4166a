"""
Mounts a file system over its own folder.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
told(call('mount', b'none', b'.', b'tmpfs', 0, None))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "mount"), "DONE", "mounted")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(arena, native.alone(native.program(CODE, "mount")), "DONE", "mounted")


ATTACK = Attack(
    id="kernel.mount",
    claim=Claim(Guarantee.NO_PRIVILEGE, "Nothing can be mounted."),
    tiers={"confined": refused("mount"), "isolated": refused("mount")},
    attack=attack,
    control=control,
)
