"""
Sets the time of what its standard input is, which it was born with: a device of this machine, if nobody took care.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

DEVICE = "/dev/null"
CODE = """
import os

for what in (0, 1, 2):
    try:
        os.utime(what)
        os.chmod(what, 0o666)
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.times(DEVICE, lambda: native.tried(arena, CODE, "NOTHING", "said it"))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed, with this machine's device as its input."""
    given = f"import os\nos.dup2(os.open({DEVICE!r}, os.O_RDWR), 0)\n"
    return native.times(DEVICE, lambda: arena.said(arena.outside.run(given + CODE), "NOTHING", "said it"))


ATTACK = Attack(
    id="metadata.times_of_input",
    claim=Claim(Guarantee.FS_CONFINED, "What a guest is born with is no way to a device of this machine."),
    tiers={"confined": refused("utimensat"), "container": Expect(Layer.NAMESPACE), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
    alone=True,
)
