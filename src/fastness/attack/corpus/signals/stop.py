"""
Stops every process that it can, itself included, so that whoever waits for it waits for ever.
"""

from __future__ import annotations

import signal
import time

from fastness.attack import careful, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, signal, sys

# Where others can be reached, it stops nobody but itself.
for number in (0, -1, os.getppid(), os.getpid()) if apart() else (os.getpid(),):
    try:
        os.kill(number, SIGNAL)
    except OSError:
        pass
print('WENT ON')
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    began = time.monotonic()
    program = careful.program(arena, CODE, SIGNAL=int(signal.SIGSTOP))
    result = arena.program(program, timeout=1, limits={"grace_s": 0.2})
    took = time.monotonic() - began
    if b"OUTSIDE" in result.stdout_bytes:
        return Effect(True, "it sees processes of this machine", result)
    after = serving.served(arena)
    return Effect(took > 5 or not after, f"it took {took:.0f} s, and the next run was served: {after}", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    bare = arena.outside.run(careful.program(arena, CODE, SIGNAL=int(signal.SIGSTOP)), limit_s=1.0)
    return Effect(bare.status is None, "whoever waited had to end it" if bare.status is None else "it ended by itself")


ATTACK = Attack(
    id="signals.stop",
    claim=Claim(Guarantee.WALL_KILL, "A program that has stopped itself ends at the time limit."),
    tiers={
        "container": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("timeout",)),
    },
    attack=attack,
    control=control,
    slow=True,
)
