"""
Writes into a folder of packages that the guest may read: over a file, beside it, in its place, and away with it.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import os

folder = os.path.dirname(TARGET)
def tries():
    yield lambda: open(TARGET, 'w').write('gone')
    yield lambda: os.truncate(TARGET, 0)
    yield lambda: open(os.path.join(folder, 'planted.py'), 'w').close()
    yield lambda: os.symlink('/', os.path.join(folder, 'planted.py'))
    yield lambda: os.rename(TARGET, os.path.join(folder, 'planted.py'))
    yield lambda: os.mkdir(os.path.join(folder, 'planted.py'))
    yield lambda: os.unlink(TARGET)

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
    changed = [path.name for path in target.parent.iterdir()] != [target.name] or target.read_text() != native.LIBRARY
    return Effect(changed, "the folder was written to" if changed else "the folder is as it was", result)


ATTACK = Attack(
    id="metadata.content",
    claim=Claim(Guarantee.FS_CONFINED, "Folders of packages can be read and not written."),
    tiers={"confined": Expect(Layer.LANDLOCK), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
