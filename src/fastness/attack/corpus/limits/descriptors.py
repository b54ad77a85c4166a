"""
Opens as many files as it can.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

held = []
try:
    for _ in range(2000):
        held.append(os.open('/dev/null', os.O_RDONLY))
except OSError as error:
    print(error)
print('MANY' if len(held) > 300 else len(held))
"""


def attack(arena: Arena) -> Effect:
    """With 200 allowed; in `isolated` as a program too."""
    return native.tried(arena, CODE, "MANY", "had more than it may", limits={"fds": 200})


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    # As many as this user may have; most may have a thousand.
    return native.outside(arena, CODE, "MANY", "had more than it may")


ATTACK = Attack(
    id="limits.descriptors",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Descriptors past the limit are refused."),
    tiers={"confined": Expect(Layer.RLIMIT), "container": Expect(Layer.RLIMIT), "isolated": Expect(Layer.RLIMIT)},
    attack=attack,
    control=control,
)
