"""
Removes an extended attribute of a file of the machine.
"""

from __future__ import annotations

import os
from pathlib import Path

from fastness.attack import library
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
import os

def tries():
    yield lambda: os.removexattr(TARGET, 'user.kept')
    yield lambda: os.removexattr(os.open(TARGET, os.O_RDONLY), 'user.kept')
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read, and that is its user's where it has one."""
    return library.tried(arena, CODE, _state, attribute=True)


def control(arena: Arena) -> Effect:
    """The same, unsandboxed, in each of its ways."""
    return library.outside(arena, CODE, _state, attribute=True)


def _state(target: Path) -> object:
    return os.listxattr(target)


ATTACK = Attack(
    id="metadata.attributes_removed",
    claim=Claim(Guarantee.FS_CONFINED, "No attribute of a file of this machine can be removed."),
    tiers={"confined": refused("removexattr", "fremovexattr"), "isolated": refused("removexattr", "fremovexattr")},
    attack=attack,
    control=control,
)
