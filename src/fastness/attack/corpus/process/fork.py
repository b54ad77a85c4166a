"""
Makes a copy of its own process.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

if os.fork() == 0:
    print('FORKED', flush=True)
    os._exit(0)
os.wait()
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "FORKED", "forked")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "FORKED", "forked")


ATTACK = Attack(
    id="process.fork",
    claim=Claim(Guarantee.NO_EXEC, "A guest cannot multiply."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
