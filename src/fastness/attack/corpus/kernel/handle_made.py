"""
Asks for a file's handle, by which it can be opened past every folder above it.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
handle = ctypes.create_string_buffer(struct.pack('=Ii', 128, 0), 136)
result = call('name_to_handle_at', -100, b'.', handle, ctypes.byref(ctypes.c_int()), 0)
told(-38 if result == -95 else result)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "name_to_handle_at"), "DONE", "had the handle")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "name_to_handle_at"), "DONE", "had the handle")


ATTACK = Attack(
    id="kernel.handle_made",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No file has a handle."),
    tiers={
        "confined": refused("name_to_handle_at"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("name_to_handle_at"),
    },
    attack=attack,
    control=control,
)
