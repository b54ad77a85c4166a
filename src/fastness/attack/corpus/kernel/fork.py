"""
Multiplies.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
child = call('clone', 17, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
told(child)
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "clone"), "DONE", "had a child", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "clone"), "DONE", "had a child")


ATTACK = Attack(
    id="kernel.fork",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code makes no process."),
    tiers={"confined": refused("clone"), "isolated": refused("clone")},
    attack=attack,
    control=control,
)
