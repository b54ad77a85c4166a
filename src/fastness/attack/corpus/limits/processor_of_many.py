"""
Spreads its use of the processor over many short processes, none of which uses much.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, time

end = time.monotonic() + 6
while time.monotonic() < end:
    if os.fork() == 0:
        stop = time.process_time() + 0.05
        while time.process_time() < stop:
            pass
        os._exit(0)
    os.wait()
print('SURVIVED')
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return arena.said(arena.program(CODE, limits={"cpu_s": 0.5}, timeout=3), "SURVIVED", "used twelve times its limit")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE.replace("+ 6", "+ 0.6")), "SURVIVED", "used the processor")


ATTACK = Attack(
    id="limits.processor_of_many",
    claim=Claim(
        Guarantee.WALL_KILL, "A program that spreads its use of the processor ends at its limits all the same."
    ),
    tiers={
        "container": Expect(Layer.LIMIT, outcomes=("cpu", "timeout")),
        "isolated": Expect(Layer.LIMIT, outcomes=("cpu", "timeout")),
    },
    attack=attack,
    control=control,
)
