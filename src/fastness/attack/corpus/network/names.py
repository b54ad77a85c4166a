"""
Looks a host name up; look-ups carry data out even where connections cannot.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
import socket

# The resolver of this machine answers for this name without a network, so the control works anywhere.
if socket.getaddrinfo('localhost', 80):
    print('RESOLVED')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "RESOLVED", "got an answer from the resolver")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "RESOLVED", "got an answer from the resolver")


ATTACK = Attack(
    id="network.names",
    claim=Claim(Guarantee.NET_CONFINED, "No name can be looked up."),
    tiers={
        "wasm": Expect(Layer.ABSENT),
        "confined": refused("socket"),
        "container": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
