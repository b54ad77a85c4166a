"""
Raises its own limits.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
import resource
try:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft - 1, 1), hard))
    print('DONE')
except (OSError, ValueError) as error:
    print(error)
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE), "DONE", "set a limit", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE), "DONE", "set a limit")


ATTACK = Attack(
    id="kernel.limits_raised",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code cannot set limits."),
    tiers={"confined": refused("prlimit64", "setrlimit"), "isolated": refused("prlimit64", "setrlimit")},
    attack=attack,
    control=control,
)
