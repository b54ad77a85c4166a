"""
Starts a program as Python does.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
import subprocess
print(subprocess.run(['echo', 'DONE'], capture_output=True, text=True).stdout)
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE), "DONE", "started one", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE), "DONE", "started one")


ATTACK = Attack(
    id="kernel.subprocess",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code starts no program."),
    tiers={
        "confined": refused("vfork", "clone", "fork"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("vfork", "clone", "fork"),
    },
    attack=attack,
    control=control,
)
