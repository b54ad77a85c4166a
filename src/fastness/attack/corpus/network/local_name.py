"""
Knocks at a socket of the machine that has a name without a path.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
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
    door = arena.listen_locally("name")
    return door.knocked(arena.run(arena.python(CODE, ADDRESS=door.address)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    door = arena.listen_locally("name")
    return door.knocked(arena.outside.run(arena.python(CODE, ADDRESS=door.address)))


ATTACK = Attack(
    id="network.local_name",
    claim=Claim(Guarantee.NET_CONFINED, "A socket of this machine that has a name without a path cannot be reached."),
    tiers={"confined": refused("socket"), "container": Expect(Layer.NAMESPACE), "isolated": refused("socket")},
    attack=attack,
    control=control,
)
