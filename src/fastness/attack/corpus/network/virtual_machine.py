"""
Opens a socket to the host that this machine may be a guest of.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('socket', 40, 1, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "socket"), "DONE", "had the socket")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "socket"), "DONE", "had the socket")


ATTACK = Attack(
    id="network.virtual_machine",
    claim=Claim(Guarantee.NET_CONFINED, "The host of a virtual machine cannot be talked to."),
    tiers={"confined": refused("socket"), "container": Expect(Layer.FILTER), "isolated": refused("socket")},
    attack=attack,
    control=control,
)
