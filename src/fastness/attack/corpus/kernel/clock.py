"""
Asks for the clock's corrections by the call that also sets them.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('adjtimex', ctypes.create_string_buffer(256)))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "adjtimex"), "DONE", "had an answer")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "adjtimex"), "DONE", "had an answer")


ATTACK = Attack(
    id="kernel.clock",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "The machine's clock cannot be set."),
    tiers={"confined": refused("adjtimex"), "container": Expect(Layer.FILTER), "isolated": refused("adjtimex")},
    attack=attack,
    control=control,
)
