"""
Leaves a file of a terabyte that takes no room, for whoever collects it.
"""

from __future__ import annotations

import time

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open('huge', 'wb') as file:
    for size in (1 << 40, 1 << 36, 1 << 30):
        try:
            os.ftruncate(file.fileno(), size)
            break
        except OSError as error:
            print(error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    began = time.monotonic()
    result = arena.run(CODE, limits={"file_bytes": 16 << 20})
    took = time.monotonic() - began
    size = sum(file.size for file in result.files.values())
    return Effect(size > 16 << 20 or took > 5, f"{size} bytes were collected in {took:.1f} s", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    arena.outside.run(CODE)
    size = (arena.work / "huge").stat().st_size
    return Effect(size > 16 << 20, f"a collector would read {size} bytes")


ATTACK = Attack(
    id="limits.sparse_file",
    claim=Claim(Guarantee.FS_CONFINED, "A file of holes is not collected past the cap."),
    tiers={
        "confined": Expect(Layer.HOST, outcomes=("ok", "guest_error", "disk")),
        "container": Expect(Layer.HOST, outcomes=("ok", "guest_error", "disk")),
        "isolated": Expect(Layer.HOST, outcomes=("ok", "guest_error", "disk")),
    },
    attack=attack,
    control=control,
)
