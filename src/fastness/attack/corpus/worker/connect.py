"""
Connects to a service of this machine.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import socket

socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "made a socket of the network")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "made a socket of the network")


ATTACK = Attack(
    id="worker.connect",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses sockets of the network."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
