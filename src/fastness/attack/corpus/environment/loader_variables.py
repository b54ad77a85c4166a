"""
Waits in a library that the caller's own environment has every program load.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Skip
from fastness.attack.outside import Outside
from fastness.tier import Guarantee

#: Comes with the C library, does nothing, and is in no program's way.
LIBRARY = "libBrokenLocale.so.1"
CODE = """
import ctypes

try:
    # 4 is RTLD_NOLOAD: only where it is there already.
    ctypes.CDLL(LIBRARY, mode=4)
    print('LOADED')
except OSError as error:
    print(error)
"""


def attack(arena: Arena) -> Effect:
    """In a guest whose zygote is started in that environment."""
    with _loaded(arena):
        return native.tried(arena, arena.python(CODE, LIBRARY=LIBRARY), "LOADED", "was loaded", anew=True)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    with _loaded(arena):
        env = {**arena.outside.env, "LD_PRELOAD": LIBRARY}
        effect = arena.said(Outside(arena.work, env).run(arena.python(CODE, LIBRARY=LIBRARY)), "LOADED", "was loaded")
    if not effect.happened:
        raise Skip(f"this C library has no {LIBRARY}")
    return effect


@contextlib.contextmanager
def _loaded(arena: Arena) -> Iterator[None]:
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = LIBRARY
    try:
        yield
    finally:
        os.environ.pop("LD_PRELOAD") if before is None else os.environ.update(LD_PRELOAD=before)


ATTACK = Attack(
    id="environment.loader_variables",
    claim=Claim(Guarantee.ENV_SCRUBBED, "Variables of the caller's that steer the loader steer no guest."),
    tiers={"confined": Expect(Layer.FRESH), "container": Expect(Layer.FRESH), "isolated": Expect(Layer.FRESH)},
    attack=attack,
    control=control,
)
