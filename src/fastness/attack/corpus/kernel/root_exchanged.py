"""
Makes its own folder the root, which puts the old root within reach.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('pivot_root', b'.', b'.'))
"""
PREPARED = """
_own.mount(b'none', b'.', b'tmpfs', 0, None)
os.chdir(os.getcwd())
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "pivot_root"), "DONE", "had another root")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(
        arena, native.alone(PREPARED + native.program(CODE, "pivot_root")), "DONE", "had another root"
    )


ATTACK = Attack(
    id="kernel.root_exchanged",
    claim=Claim(Guarantee.NO_PRIVILEGE, "The root cannot be exchanged."),
    tiers={"confined": refused("pivot_root"), "container": Expect(Layer.FILTER), "isolated": refused("pivot_root")},
    attack=attack,
    control=control,
)
