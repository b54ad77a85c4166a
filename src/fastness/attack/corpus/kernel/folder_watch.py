"""
Watches files that others use, which tells when.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
watch = call('inotify_init1', 0)
told(call('inotify_add_watch', watch, b'/usr/bin\\0', 0x20) if watch >= 0 else watch)
"""
_CALLS = ("inotify_init1", "inotify_add_watch")


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too: it shows folders that the whole machine uses."""
    return native.tried(arena, native.program(CODE, *_CALLS), "DONE", "had a watch")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, *_CALLS), "DONE", "had a watch")


ATTACK = Attack(
    id="kernel.folder_watch",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Nobody can watch who opens the files that all see."),
    tiers={"confined": refused("inotify_init1"), "isolated": refused("inotify_init1")},
    attack=attack,
    control=control,
)
