"""
Changes the mode of a file of the machine: by its path, by a descriptor, and by a path through that.
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
    yield lambda: os.chmod(TARGET, 0o777)
    yield lambda: os.chmod(os.path.basename(TARGET), 0o777, dir_fd=os.open(os.path.dirname(TARGET), os.O_RDONLY))
    yield lambda: os.fchmod(os.open(TARGET, os.O_RDONLY), 0o777)
    yield lambda: os.chmod('/proc/self/fd/%d' % os.open(TARGET, 0o10000000), 0o777)
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read, and that is its user's where it has one."""
    return library.tried(arena, CODE, _state)


def control(arena: Arena) -> Effect:
    """The same, unsandboxed, in each of its ways."""
    return library.outside(arena, CODE, _state)


def _state(target: Path) -> object:
    return target.stat().st_mode


ATTACK = Attack(
    id="metadata.mode",
    claim=Claim(Guarantee.FS_CONFINED, "The mode of a file of this machine cannot be changed."),
    tiers={"confined": refused("chmod", "fchmod", "fchmodat"), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
