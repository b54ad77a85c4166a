"""
Makes a socket with the part of the module that is not Python.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import _socket

_socket.socket().close()
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "made a socket of the network")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "made a socket of the network")


ATTACK = Attack(
    id="worker.raw_socket",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses sockets made without the library."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
