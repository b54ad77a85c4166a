"""
Opens a socket for packets that it makes itself.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('socket', 2, 3, 1))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "socket"), "DONE", "had the socket")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "socket"), "DONE", "had the socket", root=True)


ATTACK = Attack(
    id="network.raw",
    claim=Claim(Guarantee.NET_CONFINED, "Packets cannot be made by hand."),
    tiers={"confined": refused("socket"), "container": Expect(Layer.FILTER), "isolated": refused("socket")},
    attack=attack,
    control=control,
)
