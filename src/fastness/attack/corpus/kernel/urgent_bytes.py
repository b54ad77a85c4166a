"""
Sends an urgent byte through a local socket and receives it: code whose faults led out of other sandboxes.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Skip, refused
from fastness.tier import Guarantee

CODE = """
import socket

one, other = socket.socketpair()
one.setblocking(False)
other.setblocking(False)
sent = call('sendto', one.fileno(), b'x', 1, 1, 0, 0)
got = call('recvfrom', other.fileno(), ctypes.create_string_buffer(1), 1, 1, 0, 0)
told(sent if sent < 0 else got)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "sendto", "recvfrom"), "DONE", "sent and received one")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    bare = arena.outside.run(native.program(CODE, "sendto", "recvfrom"))
    if b"error 95\n" in bare.stdout_bytes:
        raise Skip("this kernel has no such thing")
    return native.spoken(arena, bare, "DONE", "sent and received one")


ATTACK = Attack(
    id="kernel.urgent_bytes",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No urgent byte goes through a local socket."),
    tiers={"confined": refused("sendto", "recvfrom"), "isolated": refused("sendto", "recvfrom")},
    attack=attack,
    control=control,
)
