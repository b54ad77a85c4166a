"""
Has a program connect to a server of this machine.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.process import ProcessScope
from fastness.tier import Guarantee

CODE = """
text = "import socket; socket.create_connection(('127.0.0.1', %d), 2).sendall(b'here')" % PORT
attempt(ctx.process.run, argv=['python3', '-c', text])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with programs granted."""
    door = arena.listen()
    with brokering.programs(arena) as broker:
        result = broker.run(CODE, ProcessScope(runs=9, seconds=3.0), facts={"PORT": door.port})
        return door.knocked(result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    door = arena.listen()
    bare = brokering.control(arena, CODE, PORT=door.port)
    return door.knocked(bare)


ATTACK = Attack(
    id="broker.process_connects",
    claim=Claim(Guarantee.NET_CONFINED, "A program that a guest asks for reaches no server."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
