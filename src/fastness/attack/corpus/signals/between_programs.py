"""
Signals a program of another run of the same sandbox, by the number that it has for itself and by every small one.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.corpus.signals.siblings import SIBLING
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.attack.native import SIGNAL
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import os

family = {os.getpid(), os.getppid()}
for number in [VICTIM, *range(1, 60)]:
    if number not in family:
        try:
            os.kill(number, SIGNAL)
        except OSError:
            pass
"""


def attack(arena: Arena) -> Effect:
    """As a command, with another command under way."""
    struck: list[RunResult] = []

    def strike(number: int) -> None:
        struck.append(arena.program(arena.python(CODE, VICTIM=number, SIGNAL=SIGNAL)))

    sibling = native.while_running(arena, arena.python(SIBLING, SIGNAL=SIGNAL), strike, program=True)
    hit = b"HIT" in sibling.stdout_bytes or b"UNHARMED" not in sibling.stdout_bytes
    return Effect(hit, "the other program was hit" if hit else "the other program ran to its end", struck[0])


def control(arena: Arena) -> Effect:
    """Two programs that one process has started."""
    program = arena.python(CODE, SIGNAL=SIGNAL).replace(
        "[VICTIM, *range(1, 60)]", "[int(one) for one in os.listdir('/proc') if one.isdigit()]"
    )
    return arena.marked(arena.outside.run(native.beside_a_witness(arena, _family_of(program))))


def _family_of(program: str) -> str:
    # Outside every number is somebody's: those are meant that have the same parent.
    return program.replace(
        "if number not in family:",
        "if number not in family and os.getpgid(number) == os.getpgid(0):",
    )


ATTACK = Attack(
    id="signals.between_programs",
    claim=Claim(Guarantee.PID_HIDDEN, "Programs of two runs cannot signal each other."),
    tiers={"isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
