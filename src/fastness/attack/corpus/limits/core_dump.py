"""
Has the kernel write down its memory when it crashes.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import ctypes, os, resource

try:
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
except (OSError, ValueError) as error:
    print(error)
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
print('ALLOWED' if hard else 'none', flush=True)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, CODE, "ALLOWED", "may have its memory written down")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, CODE, "ALLOWED", "may have its memory written down")


ATTACK = Attack(
    id="limits.core_dump",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Nothing of a guest that crashes is written down."),
    tiers={"confined": Expect(Layer.RLIMIT), "container": Expect(Layer.RLIMIT), "isolated": Expect(Layer.RLIMIT)},
    attack=attack,
    control=control,
)
