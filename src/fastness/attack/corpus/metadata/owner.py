"""
Gives a file of the machine to somebody else, or to its own user.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack import library
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
import os

user = os.getuid()
def tries():
    if POWER:
        yield lambda: os.chown(TARGET, 12345, 12345)
    yield lambda: os.chown(TARGET, user, user)
    yield lambda: os.chown(os.open(TARGET, os.O_RDONLY), user, user)
    yield lambda: os.lchown(TARGET, user, -1)
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read, and that is its user's where it has one."""
    return library.tried(arena, arena.python(CODE, POWER=True), _state)


def control(arena: Arena) -> Effect:
    """The same, unsandboxed, in each of its ways."""
    # To somebody else is for root alone.
    return library.outside(arena, arena.python(CODE, POWER=not arena.ordinary), _state)


def _state(target: Path) -> object:
    # The kernel notes the time of a change of owner, to the same owner too.
    return target.stat().st_ctime_ns


ATTACK = Attack(
    id="metadata.owner",
    claim=Claim(Guarantee.FS_CONFINED, "No file of this machine can be given to anybody."),
    tiers={
        "confined": refused("chown", "fchown", "lchown", "fchownat"),
        "isolated": refused("chown", "fchown", "lchown", "fchownat"),
    },
    attack=attack,
    control=control,
)
