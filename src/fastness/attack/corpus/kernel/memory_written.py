"""
Writes a process's memory by its number, its own for want of another that it knows.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
source = ctypes.create_string_buffer(b'other words')
target = ctypes.create_string_buffer(11)
local = struct.pack('=QQ', ctypes.addressof(source), 11)
remote = struct.pack('=QQ', ctypes.addressof(target), 11)
told(call('process_vm_writev', os.getpid(), local, 1, remote, 1, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "process_vm_writev"), "DONE", "wrote memory")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "process_vm_writev"), "DONE", "wrote memory")


ATTACK = Attack(
    id="kernel.memory_written",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Memory cannot be written by a process's number."),
    tiers={
        "confined": refused("process_vm_writev"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("process_vm_writev"),
    },
    attack=attack,
    control=control,
)
