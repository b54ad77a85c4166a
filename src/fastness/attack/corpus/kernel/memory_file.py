"""
Makes a file in memory, which no limit of a file system counts.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
told(call('memfd_create', b'attack', 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "memfd_create"), "DONE", "made the file", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "memfd_create"), "DONE", "made the file")


ATTACK = Attack(
    id="kernel.memory_file",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code makes no files outside its tree, in memory neither."),
    tiers={"confined": refused("memfd_create"), "isolated": refused("memfd_create")},
    attack=attack,
    control=control,
)
