"""
Gives the machine another name.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
# The name that it has: where nobody stops this, nothing is changed.
name = os.uname().nodename.encode()
told(call('sethostname', name, len(name)))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "sethostname"), "DONE", "named it")


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(arena, native.alone(native.program(CODE, "sethostname")), "DONE", "named it")


ATTACK = Attack(
    id="kernel.host_name",
    claim=Claim(Guarantee.NO_PRIVILEGE, "The machine's name cannot be changed."),
    tiers={"confined": refused("sethostname"), "container": Expect(Layer.FILTER), "isolated": refused("sethostname")},
    attack=attack,
    control=control,
)
