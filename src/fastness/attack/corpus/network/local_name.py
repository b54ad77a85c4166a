"""
Knocks at a socket of the machine that has a name without a path.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.attack.native import LocalDoor
from fastness.tier import Guarantee

CODE = """
import socket

client = socket.socket(socket.AF_UNIX)
client.settimeout(2)
client.connect(ADDRESS)
client.sendall(b'hello')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with LocalDoor(arena, "name") as door:
        result = arena.run(arena.python(CODE, ADDRESS=door.address))
        return Effect(door.reached(), "somebody knocked" if door.reached() else "nobody knocked", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    with LocalDoor(arena, "name") as door:
        arena.outside.run(arena.python(CODE, ADDRESS=door.address))
        return Effect(door.reached(), "somebody knocked" if door.reached() else "nobody knocked")


ATTACK = Attack(
    id="network.local_name",
    claim=Claim(Guarantee.NET_CONFINED, "A socket of this machine that has a name without a path cannot be reached."),
    tiers={"confined": refused("socket"), "isolated": refused("socket")},
    attack=attack,
    control=control,
)
