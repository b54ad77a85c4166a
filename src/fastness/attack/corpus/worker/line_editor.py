"""
Loads the module that reads files for a line editor, which no event tells of.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import readline

print('DONE', readline.read_history_file)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "loaded it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "loaded it")


ATTACK = Attack(
    id="worker.line_editor",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `readline`, which opens files without an event."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
