"""
Signals every process that it may.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.attack.native import SIGNAL
from fastness.tier import Guarantee

CODE = """
import os

try:
    os.kill(-1, SIGNAL)
except OSError as error:
    print(error)
"""


def attack(arena: Arena) -> Effect:
    """With a process of ours in the group that the sandbox was started from."""
    witness = arena.witness()
    return native.noticed(arena, witness, arena.python(CODE, SIGNAL=SIGNAL))


def control(arena: Arena) -> Effect:
    """To everybody in the program's own group."""
    # To everybody is too much where it works; to everybody of one group shows the same.
    program = arena.python(CODE, SIGNAL=SIGNAL).replace("os.kill(-1", "os.kill(0")
    return arena.marked(arena.outside.run(native.beside_a_witness(arena, program)))


ATTACK = Attack(
    id="signals.everybody",
    claim=Claim(Guarantee.ADDRESS_SPACE, "A signal to everybody reaches nobody outside."),
    tiers={"confined": refused("kill"), "container": Expect(Layer.FILTER), "isolated": refused("kill")},
    attack=attack,
    control=control,
)
