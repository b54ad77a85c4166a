"""
Looks whether a program that it started could give it power.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import ctypes

library = ctypes.CDLL(None)
# PR_SET_NO_NEW_PRIVS takes 1 and nothing else; PR_GET_NO_NEW_PRIVS says 0 where power can be gained.
print(library.prctl(38, 0, 0, 0, 0))
print('MAY GAIN' if library.prctl(39, 0, 0, 0, 0) == 0 else 'given up')
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, CODE, "MAY GAIN", "could gain power by a program")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, CODE, "MAY GAIN", "could gain power by a program")


ATTACK = Attack(
    id="privileges.given_up",
    claim=Claim(Guarantee.NO_NEW_PRIVS, "What a program could give to who starts it is given up for good."),
    tiers=dict.fromkeys(("confined", "container", "isolated"), Expect(Layer.PRIVILEGE)),
    attack=attack,
    control=control,
)
