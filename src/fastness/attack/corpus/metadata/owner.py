"""
Gives a file of the machine to somebody else, or to its own user.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import os

user = os.getuid()
def tries():
    yield lambda: os.chown(TARGET, 12345, 12345)
    yield lambda: os.chown(TARGET, user, user)
    yield lambda: os.chown(os.open(TARGET, os.O_RDONLY), user, user)
    yield lambda: os.lchown(TARGET, user, -1)

for each in tries():
    try:
        each()
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read, and that is its user's where it has one."""
    target = native.library(arena)
    before = target.stat().st_ctime_ns
    result = native.found(arena.run(native.beside(CODE, target), packages=[str(target.parent)]))
    return _effect(target, before, result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    target = native.library(arena)
    before = target.stat().st_ctime_ns
    arena.outside.run(native.beside(CODE, target))
    return _effect(target, before)


def _effect(target: Path, before: int, result: RunResult | None = None) -> Effect:
    # The kernel notes the time of a change of owner, to the same owner too.
    changed = target.stat().st_ctime_ns != before
    return Effect(changed, "its owner was set" if changed else "nobody has set its owner", result)


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
