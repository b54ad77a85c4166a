"""
Takes a mount away, to see what lies under it.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('umount2', b'.', 2))
"""
PREPARED = """
_own.mount(b'none', b'.', b'tmpfs', 0, None)
os.chdir(os.getcwd())
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "umount2"), "DONE", "unmounted")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(arena, native.alone(PREPARED + native.program(CODE, "umount2")), "DONE", "unmounted")


ATTACK = Attack(
    id="kernel.unmount",
    claim=Claim(Guarantee.NO_PRIVILEGE, "Nothing can be unmounted."),
    tiers={"confined": refused("umount2"), "container": Expect(Layer.FILTER), "isolated": refused("umount2")},
    attack=attack,
    control=control,
)
