"""
Starts a program.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import subprocess

subprocess.run(['touch', MARK_FILE], check=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="process.subprocess",
    claim=Claim(Guarantee.NO_EXEC, "No program can be started."),
    tiers={"wasm": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
