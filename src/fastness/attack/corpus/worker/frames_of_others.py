"""
Looks at the variables of other threads.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sys

print('DONE', len(sys._current_frames()))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "saw other frames")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "saw other frames")


ATTACK = Attack(
    id="worker.frames_of_others",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses the frames of other threads."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
