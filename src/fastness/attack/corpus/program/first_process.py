"""
Ends the first process of its namespace, or stops it, so that nobody reaps and nobody tells.
"""

from __future__ import annotations

from fastness.attack import careful, survivors
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, signal, subprocess, sys, time

subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)', MARK])
# The machine's own first process is left alone.
for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT) if apart() else ():
    try:
        os.kill(1, number)
    except OSError as error:
        print(error)
time.sleep(8)
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    effect = survivors.tried(arena, careful.program(arena, CODE, MARK=arena.token))
    assert effect.result is not None
    if b"OUTSIDE" in effect.result.stdout_bytes:
        return Effect(True, "it sees processes of this machine", effect.result)
    return effect


def control(arena: Arena) -> Effect:
    """Where whoever starts it ends only what was started."""
    return survivors.outside(arena, careful.program(arena, CODE, MARK=arena.token))


ATTACK = Attack(
    id="program.first_process",
    claim=Claim(Guarantee.WALL_KILL, "The first process of a run cannot be ended from inside to keep the others."),
    tiers={
        "container": Expect(Layer.LIMIT, outcomes=("timeout", "crashed", "guest_error", "ok")),
        "isolated": Expect(Layer.LIMIT, outcomes=("timeout", "crashed", "guest_error", "ok")),
    },
    attack=attack,
    control=control,
    slow=True,
)
