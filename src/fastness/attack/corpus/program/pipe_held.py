"""
Leaves a grandchild behind that holds its output open, and ends.
"""

from __future__ import annotations

from fastness.attack import survivors
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, subprocess, sys

if os.fork() == 0:
    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)', MARK])
    os._exit(0)
os.wait()
print('gone')
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return survivors.tried(arena, arena.python(CODE, MARK=arena.token))


def control(arena: Arena) -> Effect:
    """Where whoever starts it ends only what was started."""
    return survivors.outside(arena, arena.python(CODE, MARK=arena.token))


ATTACK = Attack(
    id="program.pipe_held",
    claim=Claim(Guarantee.WALL_KILL, "What holds a program's output open ends with the program."),
    tiers={
        "container": Expect(Layer.NAMESPACE, outcomes=("ok", "timeout", "guest_error")),
        "isolated": Expect(Layer.NAMESPACE, outcomes=("ok", "timeout", "guest_error")),
    },
    attack=attack,
    control=control,
    slow=True,
)
