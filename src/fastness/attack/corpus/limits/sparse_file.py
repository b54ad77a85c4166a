"""
Makes a file of a terabyte that takes no room, for whoever collects it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open('huge', 'wb') as file:
    for size in (1 << 40, 1 << 30, 1 << 25):
        try:
            os.ftruncate(file.fileno(), size)
            print('HUGE' if size > 1 << 25 else 'small')
            break
        except OSError as error:
            print(error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE, limits={"file_bytes": 16 << 20})
    size = sum(file.size for file in result.files.values())
    effect = arena.said(result, "HUGE", "made it")
    return effect if size <= 16 << 20 else Effect(True, f"{size} bytes were collected", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "HUGE", "made it")


ATTACK = Attack(
    id="limits.sparse_file",
    claim=Claim(Guarantee.FS_CONFINED, "A file cannot be larger than all files together may be, holes or not."),
    tiers={
        "confined": Expect(Layer.RLIMIT, outcomes=("ok", "guest_error", "disk")),
        "isolated": Expect(Layer.RLIMIT, outcomes=("ok", "guest_error", "disk")),
    },
    attack=attack,
    control=control,
)
