"""
Changes the times of a file of the machine, by its path and by a descriptor.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack import library
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
import os

def tries():
    yield lambda: os.utime(TARGET, (1, 1))
    yield lambda: os.utime(os.open(TARGET, os.O_RDONLY), (1, 1))
    yield lambda: os.utime(os.path.basename(TARGET), (1, 1), dir_fd=os.open(os.path.dirname(TARGET), os.O_RDONLY))
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read, and that is its user's where it has one."""
    return library.tried(arena, CODE, _state)


def control(arena: Arena) -> Effect:
    """The same, unsandboxed, in each of its ways."""
    return library.outside(arena, CODE, _state)


def _state(target: Path) -> object:
    return target.stat().st_mtime


ATTACK = Attack(
    id="metadata.times",
    claim=Claim(Guarantee.FS_CONFINED, "The times of a file of this machine cannot be changed."),
    tiers={"confined": refused("utimensat"), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
