"""
Makes a device file of its own.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
import stat
told(call('mknodat', -100, b'device', stat.S_IFCHR | 0o600, os.makedev(1, 3)))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "mknodat"), "DONE", "made a device")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "mknodat"), "DONE", "made a device", root=True)


ATTACK = Attack(
    id="kernel.device",
    claim=Claim(Guarantee.NO_PRIVILEGE, "No device file can be made."),
    tiers={"confined": refused("mknodat"), "container": Expect(Layer.FILTER), "isolated": refused("mknodat")},
    attack=attack,
    control=control,
)
