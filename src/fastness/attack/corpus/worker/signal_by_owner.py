"""
Has the kernel signal another process when something can be read.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import fcntl, os

read, write = os.pipe()
fcntl.fcntl(read, fcntl.F_SETOWN, os.getppid())
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "named another process")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "named another process")


ATTACK = Attack(
    id="worker.signal_by_owner",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The module firewall refuses to name another process as a descriptor's owner."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
