"""
Changes the table of segments, a part of the kernel with a history.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('modify_ldt', 0, ctypes.create_string_buffer(64), 64))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "modify_ldt"), "DONE", "read the table")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "modify_ldt"), "DONE", "read the table")


ATTACK = Attack(
    id="kernel.segments",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "The table of segments is out of reach."),
    tiers={"confined": refused("modify_ldt"), "container": Expect(Layer.FILTER), "isolated": refused("modify_ldt")},
    attack=attack,
    control=control,
)
