"""
Signals its process group, which crosses every namespace where the group is inherited.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.attack.native import SIGNAL
from fastness.tier import Guarantee

CODE = """
import os

for call in (lambda: os.kill(0, SIGNAL), lambda: os.killpg(0, SIGNAL), lambda: os.killpg(os.getpgid(0), SIGNAL)):
    try:
        call()
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """With a process of ours in the group that the sandbox was started from."""
    witness = arena.witness()
    return native.noticed(arena, witness, arena.python(CODE, SIGNAL=SIGNAL))


def control(arena: Arena) -> Effect:
    """With a process in the program's own group."""
    return arena.marked(arena.outside.run(native.beside_a_witness(arena, arena.python(CODE, SIGNAL=SIGNAL))))


ATTACK = Attack(
    id="signals.group",
    claim=Claim(Guarantee.ADDRESS_SPACE, "A signal to its own group reaches nobody outside."),
    tiers={"confined": refused("kill"), "container": Expect(Layer.FILTER), "isolated": refused("kill")},
    attack=attack,
    control=control,
)
