"""
Signals a whole group of processes.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

os.killpg(os.getpgid(0), 0)
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "signalled its group")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "signalled its group")


ATTACK = Attack(
    id="worker.kill_group",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses signals to groups."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
