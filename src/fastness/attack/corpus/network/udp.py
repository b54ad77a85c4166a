"""
Sends a datagram to a server on this machine.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
import socket

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', PORT))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    door = arena.listen()
    return door.knocked(arena.run(arena.python(CODE, PORT=door.port)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    door = arena.listen()
    return door.knocked(arena.outside.run(arena.python(CODE, PORT=door.port)))


ATTACK = Attack(
    id="network.udp",
    claim=Claim(Guarantee.NET_CONFINED, "No datagram can be sent."),
    tiers={
        "wasm": Expect(Layer.GUEST, "unsupported"),
        "confined": refused("socket"),
        "container": Expect(Layer.NAMESPACE),
        "isolated": refused("socket"),
    },
    attack=attack,
    control=control,
)
