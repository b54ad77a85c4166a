"""
Sets a variable that makes a library load another when it starts.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

os.environ['OPENSSL_CONF'] = '/nowhere'
print('DONE', os.environ['OPENSSL_CONF'])
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "set the variable")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "set the variable")


ATTACK = Attack(
    id="worker.library_variables",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses variables that load libraries."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
