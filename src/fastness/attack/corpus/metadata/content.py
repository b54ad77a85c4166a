"""
Writes into a folder of packages that the guest may read: over a file, beside it, in its place, and away with it.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack import library
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
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
"""


def attack(arena: Arena) -> Effect:
    """On a file that the guest may read, and that is its user's where it has one."""
    return library.tried(arena, CODE, _state)


def control(arena: Arena) -> Effect:
    """The same, unsandboxed, in each of its ways."""
    return library.outside(arena, CODE, _state)


def _state(target: Path) -> object:
    return [path.name for path in target.parent.iterdir()], target.is_file() and target.read_text()


ATTACK = Attack(
    id="metadata.content",
    claim=Claim(Guarantee.FS_CONFINED, "Folders of packages can be read and not written."),
    tiers={"confined": Expect(Layer.LANDLOCK), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
