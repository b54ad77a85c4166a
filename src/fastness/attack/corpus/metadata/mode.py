"""
Changes the mode of a file of the machine: by its path, by a descriptor, and by a path through that.
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
    yield lambda: os.chmod(TARGET, 0o777)
    yield lambda: os.chmod(os.path.basename(TARGET), 0o777, dir_fd=os.open(os.path.dirname(TARGET), os.O_RDONLY))
    yield lambda: os.fchmod(os.open(TARGET, os.O_RDONLY), 0o777)
    yield lambda: os.chmod('/proc/self/fd/%d' % os.open(TARGET, 0o10000000), 0o777)

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
    changed = target.stat().st_mode & 0o777 != 0o666
    return Effect(changed, "its mode is another" if changed else "its mode is what it was", result)


ATTACK = Attack(
    id="metadata.mode",
    claim=Claim(Guarantee.FS_CONFINED, "The mode of a file of this machine cannot be changed."),
    tiers={"confined": refused("chmod", "fchmod", "fchmodat"), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
