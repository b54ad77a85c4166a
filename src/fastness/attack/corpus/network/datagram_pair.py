"""
Makes a pair of datagram sockets, each of which could be turned on any socket that has a name.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
print('DONE', __import__('socket').socketpair(1, 2))
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE), "DONE", "had the pair", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE), "DONE", "had the pair")


ATTACK = Attack(
    id="network.datagram_pair",
    claim=Claim(Guarantee.NET_CONFINED, "Python code has no socket that could be turned on another."),
    tiers={"confined": refused("socketpair"), "isolated": refused("socketpair")},
    attack=attack,
    control=control,
)
