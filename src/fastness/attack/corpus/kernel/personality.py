"""
Switches off the layout's randomness for what it starts.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('personality', 0x0040000))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "personality"), "DONE", "switched it off")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "personality"), "DONE", "switched it off")


ATTACK = Attack(
    id="kernel.personality",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No protection of processes can be switched off."),
    tiers={"confined": refused("personality"), "container": Expect(Layer.FILTER), "isolated": refused("personality")},
    attack=attack,
    control=control,
)
