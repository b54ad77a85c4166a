"""
Ends the first process of its namespace, or stops it, so that nobody reaps and nobody tells.
"""

from __future__ import annotations

import time

from fastness.attack import careful, native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, signal, subprocess, sys, time

subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)', MARK])
# The machine's own first process is left alone.
for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGHUP) if apart() else ():
    try:
        os.kill(1, number)
    except OSError as error:
        print(error)
time.sleep(8)
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    began = time.monotonic()
    result = arena.program(careful.program(arena, CODE, MARK=arena.token), timeout=1.0, limits={"grace_s": 0.2})
    took = time.monotonic() - began
    left = native.alive(arena.token)
    if b"OUTSIDE" in result.stdout_bytes:
        return Effect(True, "it sees processes of this machine", result)
    return Effect(bool(left) or took > 4.0, f"{len(left)} of its processes live on, after {took:.1f} s", result)


def control(arena: Arena) -> Effect:
    """Where whoever starts it ends only what was started."""
    bare = native.left_behind(arena, careful.program(arena, CODE, MARK=arena.token))
    return Effect(bare > 0, f"{bare} of its processes lived on")


ATTACK = Attack(
    id="program.first_process",
    claim=Claim(Guarantee.WALL_KILL, "The first process of a run cannot be ended from inside to keep the others."),
    tiers={"isolated": Expect(Layer.LIMIT, outcomes=("timeout", "crashed", "guest_error", "ok"))},
    attack=attack,
    control=control,
)
