"""
Lists what files another process of the same user has open.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

print('DONE', os.listdir(f'/proc/{VICTIM}/fd'))
"""


def attack(arena: Arena) -> Effect:
    """In the tier, while a process of the same user has something to hide."""
    victim = arena.victim()
    return arena.said(arena.run(arena.python(CODE, VICTIM=victim.pid)), "DONE", "listed the descriptors")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    victim = arena.victim()
    return arena.said(arena.outside.run(arena.python(CODE, VICTIM=victim.pid)), "DONE", "listed the descriptors")


ATTACK = Attack(
    id="worker.descriptors_of_others",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses to list the descriptors of other processes."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
