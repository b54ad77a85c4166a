"""
Opens a TCP socket that uses several paths (MPTCP), which rules for ports may overlook.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
told(-38 if (made := call('socket', 2, 1, 262)) in (-92, -93) else made)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "socket"), "DONE", "had the socket")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "socket"), "DONE", "had the socket")


ATTACK = Attack(
    id="network.many_paths",
    claim=Claim(Guarantee.NET_CONFINED, "TCP over several paths is closed too."),
    tiers={"confined": refused("socket"), "isolated": refused("socket")},
    attack=attack,
    control=control,
)
