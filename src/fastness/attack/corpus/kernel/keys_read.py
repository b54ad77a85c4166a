"""
Looks for the key rings that its caller has.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('keyctl', 0, -3, 1))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "keyctl"), "DONE", "had the session's key ring")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "keyctl"), "DONE", "had the session's key ring")


ATTACK = Attack(
    id="kernel.keys_read",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No key ring can be looked at."),
    tiers={"confined": refused("keyctl"), "container": Expect(Layer.FILTER), "isolated": refused("keyctl")},
    attack=attack,
    control=control,
)
