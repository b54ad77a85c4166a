"""
Reads a named pipe that somebody keeps in a package folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.attack.outside import Bare
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import os, sys

for place in (PACKAGES, *sys.path):
    path = os.path.join(place, 'pipe')
    if os.path.exists(path):
        print(os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 100))
        break
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return _read(arena, lambda code, folder: arena.run(code, packages=(folder,)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return _read(arena, lambda code, folder: arena.outside.run(code))


def _read(arena: Arena, run: Callable[[str, str], RunResult | Bare]) -> Effect:
    folder: Path = arena.shared_folder()
    os.mkfifo(folder / "pipe")
    (folder / "pipe").chmod(0o666)
    end = os.open(folder / "pipe", os.O_RDWR)
    try:
        os.write(end, arena.token.encode())
        return arena.leaked(run(arena.python(CODE, PACKAGES=str(folder)), str(folder)))
    finally:
        os.close(end)


SAYS = "A native guest reads a named pipe that somebody keeps in a package folder, where its mode lets it."
ATTACK = Attack(
    id="files.pipe_read",
    claim=Claim(Guarantee.FS_CONFINED, SAYS),
    tiers=dict.fromkeys(("confined", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
