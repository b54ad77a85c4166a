"""
Enters a namespace of another process, by what it can see of it.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
try:
    there = os.open('/proc/self/ns/uts', os.O_RDONLY)
except OSError:
    there = 1
told(call('setns', there, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "setns"), "DONE", "entered it")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(arena, native.alone(native.program(CODE, "setns")), "DONE", "entered it")


ATTACK = Attack(
    id="kernel.namespace_entered",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No namespace can be entered."),
    tiers={"confined": refused("setns"), "container": Expect(Layer.FILTER), "isolated": refused("setns")},
    attack=attack,
    control=control,
)
