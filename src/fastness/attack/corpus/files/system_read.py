"""
Reads the interpreter's library, and a file that somebody keeps in a package folder.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import os, sys

print(open(os.__file__).read()[:1])
for place in (PACKAGES, *sys.path):
    path = os.path.join(place, 'settings.txt')
    if os.path.exists(path):
        print(open(path).read())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    folder = _folder(arena)
    return arena.leaked(arena.run(_code(arena, folder), packages=(str(folder),)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(_code(arena, _folder(arena))))


def _folder(arena: Arena) -> Path:
    folder = arena.shared_folder()
    (folder / "settings.txt").write_text(arena.token)
    return folder


def _code(arena: Arena, folder: Path) -> str:
    return arena.python(CODE, PACKAGES=str(folder))


SAYS = "A native guest reads the interpreter's library and what is in package folders."
ATTACK = Attack(
    id="files.system_read",
    claim=Claim(Guarantee.FS_CONFINED, SAYS),
    tiers=dict.fromkeys(("confined", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
