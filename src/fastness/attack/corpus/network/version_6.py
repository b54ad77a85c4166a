"""
Opens a socket of the newer internet protocol.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
told(call('socket', 10, 1, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "socket"), "DONE", "had the socket")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "socket"), "DONE", "had the socket")


ATTACK = Attack(
    id="network.version_6",
    claim=Claim(Guarantee.NET_CONFINED, "The newer internet protocol is as closed as the older."),
    tiers={"confined": refused("socket"), "isolated": refused("socket")},
    attack=attack,
    control=control,
)
