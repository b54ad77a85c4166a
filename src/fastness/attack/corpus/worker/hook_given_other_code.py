"""
Gives the function that judges other code.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, sys, types

module = sys.modules.get('_fastness_firewall')
for value in list(vars(module).values()) if module else ():
    if isinstance(value, types.FunctionType):
        value.__code__ = (lambda *args, **named: None).__code__.replace(co_freevars=value.__code__.co_freevars)
os.system(f'touch {MARK_FILE}')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.hook_given_other_code",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The module firewall holds where every function in reach is given other code."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported", outcomes=("ok", "guest_error", "protocol", "crashed"))},
    attack=attack,
    control=control,
)
