"""
Sets the time of a device that it may write to, which needs no owner: a word to whoever looks at it.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

DEVICE = "/dev/full"
CODE = """
import os

for what in (DEVICE, os.open(DEVICE, os.O_WRONLY)):
    try:
        os.utime(what)
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.times(DEVICE, lambda: native.tried(arena, arena.python(CODE, DEVICE=DEVICE), "NOTHING", "said it"))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.times(
        DEVICE, lambda: arena.said(arena.outside.run(arena.python(CODE, DEVICE=DEVICE)), "NOTHING", "said it")
    )


ATTACK = Attack(
    id="metadata.device_times",
    claim=Claim(Guarantee.FS_CONFINED, "The times of a device of this machine cannot be changed."),
    tiers={"confined": refused("utimensat"), "container": Expect(Layer.NAMESPACE), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
    alone=True,
)
