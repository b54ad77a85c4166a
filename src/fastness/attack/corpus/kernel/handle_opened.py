"""
Opens a file by its handle, past every folder above it.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
handle = ctypes.create_string_buffer(struct.pack('=Ii', 128, 0), 136)
made = call('name_to_handle_at', -100, b'.', handle, ctypes.byref(ctypes.c_int()), 0)
folder = os.open('.', os.O_RDONLY)
result = call('open_by_handle_at', folder, handle, os.O_RDONLY)
told(-38 if made == -95 else result)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "name_to_handle_at", "open_by_handle_at"), "DONE", "opened it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(
        arena, native.program(CODE, "name_to_handle_at", "open_by_handle_at"), "DONE", "opened it", root=True
    )


ATTACK = Attack(
    id="kernel.handle_opened",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No file can be opened by its handle."),
    tiers={
        "confined": refused("open_by_handle_at"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("open_by_handle_at"),
    },
    attack=attack,
    control=control,
)
