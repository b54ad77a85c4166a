"""
Watches files that others use, which tells when.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
told(call('inotify_init1', 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "inotify_init1"), "DONE", "had a watch", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "inotify_init1"), "DONE", "had a watch")


ATTACK = Attack(
    id="kernel.folder_watch",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code cannot watch files."),
    tiers={"confined": refused("inotify_init1"), "isolated": refused("inotify_init1")},
    attack=attack,
    control=control,
)
