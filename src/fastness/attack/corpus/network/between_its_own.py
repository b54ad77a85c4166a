"""
Connects a process of a program to another of the same program.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import os, socket, tempfile

place = os.path.join(tempfile.mkdtemp(), 'door')
door = socket.socket(socket.AF_UNIX)
door.bind(place)
door.listen()
if os.fork() == 0:
    other = socket.socket(socket.AF_UNIX)
    other.connect(place)
    other.sendall(b'TALKED')
    os._exit(0)
print(door.accept()[0].recv(10).decode())
os.wait()
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return arena.said(arena.program(CODE), "TALKED", "talked to another process of its own")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "TALKED", "talked to another process of its own")


SAYS = "Processes of one command talk to each other by local sockets."
ATTACK = Attack(
    id="network.between_its_own",
    claim=Claim(Guarantee.NET_CONFINED, SAYS),
    tiers=dict.fromkeys(("container", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
