"""
Asks its connection for a descriptor of the process at the other end, which is the host's.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Skip, refused
from fastness.tier import Guarantee

#: The conversation with the host; where there is none, as outside and in programs, a pair of its own.
CODE = """
import socket, stat

pair = socket.socketpair()
try:
    talk = os.dup(3) if stat.S_ISSOCK(os.fstat(3).st_mode) else pair[0].fileno()
except OSError:
    talk = pair[0].fileno()
size = ctypes.c_int(4)
told(call('getsockopt', talk, 1, 77, ctypes.byref(ctypes.c_int(-1)), ctypes.byref(size)))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "getsockopt"), "DONE", "had the descriptor")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    bare = arena.outside.run(native.program(CODE, "getsockopt"))
    if b"error 92\n" in bare.stdout_bytes:
        raise Skip("this kernel has no such thing")
    return native.spoken(arena, bare, "DONE", "had the descriptor")


ATTACK = Attack(
    id="kernel.process_descriptor_by_socket",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "A connection gives no descriptor of the process at its other end."),
    tiers={"confined": refused("getsockopt"), "isolated": refused("getsockopt")},
    attack=attack,
    control=control,
)
