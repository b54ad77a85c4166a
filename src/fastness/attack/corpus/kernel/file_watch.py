"""
Watches files of the whole machine.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('fanotify_init', 0x200, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "fanotify_init"), "DONE", "had a watch")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "fanotify_init"), "DONE", "had a watch", root=True)


ATTACK = Attack(
    id="kernel.file_watch",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No file system can be watched."),
    tiers={
        "confined": refused("fanotify_init"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("fanotify_init"),
    },
    attack=attack,
    control=control,
)
