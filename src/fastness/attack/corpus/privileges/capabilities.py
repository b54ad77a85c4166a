"""
Takes every capability, by asking for it, by becoming root, and by what is left for children.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import ctypes, os

library = ctypes.CDLL(None, use_errno=True)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
every = (ctypes.c_uint32 * 6)(0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x1FF, 0x1FF, 0x1FF)
print(library.capset(header, every))
for change in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0]), lambda: os.setgid(0)):
    try:
        change()
    except OSError as error:
        print(error)
print(library.prctl(47, 2, 21, 0, 0))
left = [number for number in range(64) if library.prctl(23, number, 0, 0, 0) == 1]
now = (ctypes.c_uint32 * 6)()
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
if library.capget(header, now) == 0 and (now[0] or now[3] or os.geteuid() == 0):
    print('POWER', list(now), left)
else:
    print(list(now), os.geteuid(), left)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, CODE, "POWER", "had power")


def control(arena: Arena) -> Effect:
    """In namespaces of its own, where it is root."""
    return native.outside(arena, native.alone(CODE), "POWER", "had power")


ATTACK = Attack(
    id="privileges.capabilities",
    claim=Claim(Guarantee.NO_PRIVILEGE, "No capability can be had, and no other user be become."),
    tiers={
        "confined": Expect(Layer.PRIVILEGE),
        "container": Expect(Layer.PRIVILEGE),
        "isolated": Expect(Layer.PRIVILEGE),
    },
    attack=attack,
    control=control,
)
