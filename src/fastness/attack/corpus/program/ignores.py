"""
Ignores every signal that can be ignored, in all of its processes.
"""

from __future__ import annotations

from fastness.attack import survivors
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, signal, subprocess, sys, time

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)', MARK])
time.sleep(8)
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return survivors.tried(arena, arena.python(CODE, MARK=arena.token))


def control(arena: Arena) -> Effect:
    """Where whoever starts it ends only what was started."""
    return survivors.outside(arena, arena.python(CODE, MARK=arena.token))


ATTACK = Attack(
    id="program.ignores",
    claim=Claim(Guarantee.WALL_KILL, "A program that ignores signals ends at the time limit, and all of it."),
    tiers={
        "container": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("timeout",)),
    },
    attack=attack,
    control=control,
    slow=True,
)
