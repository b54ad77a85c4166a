"""
Changes a file of the machine, as a program that may change what is its own.
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
held = os.open(TARGET, os.O_RDONLY)
def tries():
    yield lambda: os.chmod(TARGET, 0o777)
    yield lambda: os.fchmod(held, 0o777)
    yield lambda: os.chmod(f'/proc/self/fd/{held}', 0o777)
    yield lambda: os.utime(TARGET, (1, 1))
    yield lambda: os.utime(held, (1, 1))
    yield lambda: os.chown(TARGET, 12345, 12345)
    yield lambda: os.setxattr(TARGET, 'user.left', b'words')
    yield lambda: open(TARGET, 'w').write('gone')
    yield lambda: open(f'/proc/self/fd/{held}', 'w').write('gone')
    yield lambda: os.truncate(TARGET, 0)
    yield lambda: open(os.path.join(folder, 'planted.py'), 'w').close()
    yield lambda: os.rename(TARGET, os.path.join(folder, 'planted.py'))
    yield lambda: os.unlink(TARGET)

for each in tries():
    try:
        each()
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """As a command, on a file that it may read."""
    target = native.library(arena)
    return _effect(target, native.found(arena.program(native.beside(CODE, target), packages=[str(target.parent)])))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    target = native.library(arena)
    arena.outside.run(native.beside(CODE, target))
    return _effect(target)


def _effect(target: Path, result: RunResult | None = None) -> Effect:
    changed = not target.exists() or (target.stat().st_mode & 0o777, target.read_text()) != (0o666, native.LIBRARY)
    return Effect(changed, "the file was changed" if changed else "the file is as it was", result)


ATTACK = Attack(
    id="metadata.from_a_program",
    claim=Claim(Guarantee.FS_CONFINED, "Programs change no file that the machine shares with them."),
    tiers={"isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
