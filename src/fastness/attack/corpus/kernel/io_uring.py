"""
Sets up a queue of operations, which makes files and sockets past filters of system calls.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('io_uring_setup', 4, ctypes.create_string_buffer(120)))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "io_uring_setup"), "DONE", "had a queue")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "io_uring_setup"), "DONE", "had a queue")


ATTACK = Attack(
    id="kernel.io_uring",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No queue for asynchronous operations (io_uring) can be had."),
    tiers={
        "confined": refused("io_uring_setup"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("io_uring_setup"),
    },
    attack=attack,
    control=control,
)
