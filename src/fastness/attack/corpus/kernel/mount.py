"""
Mounts a file system over its own folder.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
mounted = call('mount', b'none', b'.', b'tmpfs', 0, None)
# By its path, which leads to what was mounted; it is taken away again.
call('umount2', os.getcwd().encode(), 2) if mounted >= 0 else None
told(mounted)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "mount", "umount2"), "DONE", "mounted")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(arena, native.alone(native.program(CODE, "mount", "umount2")), "DONE", "mounted")


ATTACK = Attack(
    id="kernel.mount",
    claim=Claim(Guarantee.NO_PRIVILEGE, "Nothing can be mounted."),
    tiers={"confined": refused("mount"), "container": Expect(Layer.FILTER), "isolated": refused("mount")},
    attack=attack,
    control=control,
)
