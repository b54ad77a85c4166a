"""
Gives a file of the machine to somebody else, or to itself.
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
    yield lambda: os.chown(os.open(TARGET, os.O_RDONLY), 12345, 12345)
    yield lambda: os.lchown(TARGET, -1, 12345)

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
    changed = 12345 in (target.stat().st_uid, target.stat().st_gid)
    return Effect(changed, "it has another owner" if changed else "it has the owner that it had", result)


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
