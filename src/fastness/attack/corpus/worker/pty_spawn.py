"""
Starts a program on a terminal of its own.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import pty

pty.spawn(['touch', MARK_FILE])
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.pty_spawn",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `pty.spawn`."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
