"""
Signals another guest of the same sandbox: by its number where that is known, and by every small number.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.attack.native import SIGNAL
from fastness.runs import RunResult
from fastness.tier import Guarantee

SIBLING = """
import os, signal, sys, time

signal.signal(SIGNAL, lambda *_: print('HIT', flush=True))
print('READY', os.getpid(), flush=True)
end = time.monotonic() + 1.2
while time.monotonic() < end:
    time.sleep(0.05)
print('UNHARMED', flush=True)
"""
CODE = """
import os

for number in [VICTIM, 0, -1, *range(1, 40)]:
    if number == os.getpid():
        continue
    try:
        os.kill(number, SIGNAL)
    except OSError:
        pass
"""


def attack(arena: Arena) -> Effect:
    """With another guest under way."""

    def strike(number: int) -> None:
        struck.append(arena.run(arena.python(CODE, VICTIM=number, SIGNAL=SIGNAL)))
        if arena.tier == "isolated" and arena.has_programs():
            struck.append(
                arena.program(arena.python(CODE.replace("-1, ", "").replace(" 0,", ""), VICTIM=number, SIGNAL=SIGNAL))
            )

    struck: list[RunResult] = []
    sibling = native.while_running(arena, arena.python(SIBLING, SIGNAL=SIGNAL), strike)
    hit = b"HIT" in sibling.stdout_bytes or b"UNHARMED" not in sibling.stdout_bytes
    return Effect(hit, "the other guest was hit" if hit else "the other guest ran to its end", struck[0])


def control(arena: Arena) -> Effect:
    """Two programs that one process has started."""
    program = arena.python(CODE, VICTIM=0, SIGNAL=SIGNAL).replace(", -1, *range(1, 40)", "")
    return arena.marked(arena.outside.run(native.beside_a_witness(arena, program)))


ATTACK = Attack(
    id="signals.siblings",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Guests of one sandbox cannot signal each other."),
    tiers={"confined": refused("kill"), "container": Expect(Layer.FILTER), "isolated": refused("kill")},
    attack=attack,
    control=control,
    slow=True,
)
