"""
Moves pages of its memory into a pipe, which has had its share of kernel faults.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
read, write = os.pipe()
memory = ctypes.create_string_buffer(b'x' * 4096)
told(call('vmsplice', write, struct.pack('=QQ', ctypes.addressof(memory), 4096), 1, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "vmsplice"), "DONE", "moved a page")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "vmsplice"), "DONE", "moved a page")


ATTACK = Attack(
    id="kernel.pages_given",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No page of memory can be given to a pipe."),
    tiers={"confined": refused("vmsplice"), "container": Expect(Layer.FILTER), "isolated": refused("vmsplice")},
    attack=attack,
    control=control,
)
