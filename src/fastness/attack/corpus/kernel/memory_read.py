"""
Reads a process's memory by its number, its own for want of another that it knows.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
kept = ctypes.create_string_buffer(b'known words')
target = ctypes.create_string_buffer(11)
local = struct.pack('=QQ', ctypes.addressof(target), 11)
remote = struct.pack('=QQ', ctypes.addressof(kept), 11)
told(call('process_vm_readv', os.getpid(), local, 1, remote, 1, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "process_vm_readv"), "DONE", "read memory")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "process_vm_readv"), "DONE", "read memory")


ATTACK = Attack(
    id="kernel.memory_read",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Memory cannot be read by a process's number."),
    tiers={
        "confined": refused("process_vm_readv"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("process_vm_readv"),
    },
    attack=attack,
    control=control,
)
