"""
Changes the times of a file of the machine, by its path and by a descriptor.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import os

def tries():
    yield lambda: os.utime(TARGET, (1, 1))
    yield lambda: os.utime(os.open(TARGET, os.O_RDONLY), (1, 1))
    yield lambda: os.utime(os.path.basename(TARGET), (1, 1), dir_fd=os.open(os.path.dirname(TARGET), os.O_RDONLY))

for each in tries():
    try:
        each()
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read, and that is its user's where it has one."""
    target = native.library(arena)
    return _effect(target, native.found(arena.run(native.beside(CODE, target), packages=[str(target.parent)])))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    target = native.library(arena)
    arena.outside.run(native.beside(CODE, target))
    return _effect(target)


def _effect(target: Path, result: RunResult | None = None) -> Effect:
    changed = target.stat().st_mtime == 1
    return Effect(changed, "its time is another" if changed else "its time is what it was", result)


ATTACK = Attack(
    id="metadata.times",
    claim=Claim(Guarantee.FS_CONFINED, "The times of a file of this machine cannot be changed."),
    tiers={"confined": refused("utimensat"), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
