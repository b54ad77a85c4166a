"""
Connects to a service of this machine through the file system.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, socket

other, path = socket.socket(socket.AF_UNIX), MARK_FILE + '.s'
other.bind(path)
os.unlink(path)
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "opened a service")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "opened a service")


ATTACK = Attack(
    id="worker.connect_locally",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses connections through the file system."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
