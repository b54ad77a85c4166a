"""
Opens a socket that sees every packet of the machine.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('socket', 17, 3, 0x300))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "socket"), "DONE", "had the socket")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "socket"), "DONE", "had the socket", root=True)


ATTACK = Attack(
    id="network.packets",
    claim=Claim(Guarantee.NET_CONFINED, "Packets cannot be read off the wire."),
    tiers={"confined": refused("socket"), "container": Expect(Layer.FILTER), "isolated": refused("socket")},
    attack=attack,
    control=control,
)
