"""
Has itself traced, the first step of tracing anybody.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('ptrace', 0, 0, 0, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "ptrace"), "DONE", "was traced")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "ptrace"), "DONE", "was traced")


ATTACK = Attack(
    id="kernel.trace",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No process can trace another."),
    tiers={"confined": refused("ptrace"), "container": Expect(Layer.FILTER), "isolated": refused("ptrace")},
    attack=attack,
    control=control,
)
