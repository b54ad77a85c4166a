"""
Opens a descriptor of a process, by which it can be signalled after its number is another's.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
told(call('pidfd_open', os.getpid(), 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "pidfd_open"), "DONE", "had the descriptor", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "pidfd_open"), "DONE", "had the descriptor")


ATTACK = Attack(
    id="kernel.process_descriptor",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code has no descriptor of any process."),
    tiers={"confined": refused("pidfd_open"), "isolated": refused("pidfd_open")},
    attack=attack,
    control=control,
)
