"""
Removes an extended attribute of a file of the machine.
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

for what in (TARGET, os.open(TARGET, os.O_RDONLY)):
    try:
        os.removexattr(what, 'user.kept')
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
    changed = "user.kept" not in os.listxattr(target)
    return Effect(changed, "its attribute is gone" if changed else "its attribute is there", result)


ATTACK = Attack(
    id="metadata.attributes_removed",
    claim=Claim(Guarantee.FS_CONFINED, "No attribute of a file of this machine can be removed."),
    tiers={"confined": refused("removexattr", "fremovexattr"), "isolated": refused("removexattr", "fremovexattr")},
    attack=attack,
    control=control,
)
