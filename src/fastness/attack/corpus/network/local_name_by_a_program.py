"""
Knocks, as a program that may have local sockets, at a socket of the machine that has a name without a path.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import socket

for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    try:
        client = socket.socket(socket.AF_UNIX, kind)
        client.settimeout(2)
        client.connect(ADDRESS)
        client.sendall(b'hello')
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    door = arena.listen_locally("name")
    return door.knocked(arena.program(arena.python(CODE, ADDRESS=door.address)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    door = arena.listen_locally("name")
    return door.knocked(arena.outside.run(arena.python(CODE, ADDRESS=door.address)))


ATTACK = Attack(
    id="network.local_name_by_a_program",
    claim=Claim(
        Guarantee.NET_CONFINED,
        "A socket of this machine that has a name without a path cannot be reached by a program.",
    ),
    tiers={"container": Expect(Layer.NAMESPACE), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
