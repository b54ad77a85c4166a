"""
Leaves words in the extended attributes of a file of the machine, where nobody looks.
"""

from __future__ import annotations

import os
from pathlib import Path

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import os

def tries():
    yield lambda: os.setxattr(TARGET, 'user.left', b'words')
    yield lambda: os.setxattr(os.open(TARGET, os.O_RDONLY), 'user.left', b'words')
    yield lambda: os.setxattr(TARGET, 'user.left', b'words', follow_symlinks=False)

for each in tries():
    try:
        each()
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read, and that is its user's where it has one."""
    target = native.library(arena)
    native.attributes_on(arena, target)
    return _effect(target, native.found(arena.run(native.beside(CODE, target), packages=[str(target.parent)])))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    target = native.library(arena)
    native.attributes_on(arena, target)
    arena.outside.run(native.beside(CODE, target))
    return _effect(target)


def _effect(target: Path, result: RunResult | None = None) -> Effect:
    changed = "user.left" in os.listxattr(target)
    return Effect(
        changed, "there are words in its attributes" if changed else "its attributes are what they were", result
    )


ATTACK = Attack(
    id="metadata.attributes_written",
    claim=Claim(Guarantee.FS_CONFINED, "No attribute of a file of this machine can be written."),
    tiers={"confined": refused("setxattr", "fsetxattr"), "isolated": refused("setxattr", "fsetxattr")},
    attack=attack,
    control=control,
)
