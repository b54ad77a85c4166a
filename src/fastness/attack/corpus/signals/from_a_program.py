"""
Signals, as a program that may signal, its group, everybody, and every number up to that of a process outside.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.attack.native import SIGNAL
from fastness.tier import Guarantee

CODE = """
import os, signal

signal.signal(SIGNAL, signal.SIG_IGN)
for number in [0, -1, *range(1, 300), VICTIM, VICTIM - 1, VICTIM + 1]:
    try:
        os.kill(number, SIGNAL)
    except OSError:
        pass
print('TRIED')
"""


def attack(arena: Arena) -> Effect:
    """As a command, with a process of ours in the group that the sandbox was started from."""
    witness = arena.witness()
    result = arena.program(arena.python(CODE, VICTIM=witness.pid, SIGNAL=SIGNAL))
    return native.mark_of(arena, witness, result)


def control(arena: Arena) -> Effect:
    """To the program's own group."""
    program = arena.python(CODE, VICTIM=0, SIGNAL=SIGNAL).replace(
        ", -1, *range(1, 300), VICTIM, VICTIM - 1, VICTIM + 1", ""
    )
    return arena.marked(arena.outside.run(native.beside_a_witness(arena, program)))


ATTACK = Attack(
    id="signals.from_a_program",
    claim=Claim(Guarantee.PID_HIDDEN, "A program signals processes of its own run only."),
    tiers={"container": Expect(Layer.NAMESPACE), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
