"""
Ignores every signal that can be ignored, in all of its processes.
"""

from __future__ import annotations

import time

from fastness.attack import native
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
    began = time.monotonic()
    result = arena.program(arena.python(CODE, MARK=arena.token), timeout=1.0, limits={"grace_s": 0.2})
    took = time.monotonic() - began
    left = native.alive(arena.token)
    return Effect(bool(left) or took > 4.0, f"{len(left)} of its processes live on, after {took:.1f} s", result)


def control(arena: Arena) -> Effect:
    """Where whoever starts it ends only what was started."""
    bare = native.left_behind(arena, arena.python(CODE, MARK=arena.token))
    return Effect(bare > 0, f"{bare} of its processes lived on")


ATTACK = Attack(
    id="program.ignores",
    claim=Claim(Guarantee.WALL_KILL, "A program that ignores signals ends at the time limit, and all of it."),
    tiers={"isolated": Expect(Layer.LIMIT, outcomes=("timeout",))},
    attack=attack,
    control=control,
)
