"""
Leaves words in the extended attributes of a file of the machine, where nobody looks.
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
    yield lambda: os.setxattr(TARGET, 'user.left', b'words')
    yield lambda: os.setxattr(os.open(TARGET, os.O_RDONLY), 'user.left', b'words')
    yield lambda: os.setxattr(TARGET, 'user.left', b'words', follow_symlinks=False)
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
    id="metadata.attributes_written",
    claim=Claim(Guarantee.FS_CONFINED, "No attribute of a file of this machine can be written."),
    tiers={"confined": refused("setxattr", "fsetxattr"), "isolated": refused("setxattr", "fsetxattr")},
    attack=attack,
    control=control,
)
