"""
Connects to a server on this machine.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
import socket

client = socket.socket()
client.connect(('127.0.0.1', PORT))
client.sendall(b'hello')
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
    id="network.tcp",
    claim=Claim(Guarantee.NET_CONFINED, "No TCP connection can be made, not even to this machine."),
    tiers={
        "wasm": Expect(Layer.GUEST, "unsupported"),
        "confined": refused("socket"),
        "container": Expect(Layer.NAMESPACE),
        "isolated": refused("socket"),
    },
    attack=attack,
    control=control,
)
