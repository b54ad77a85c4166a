"""
Leaves a process behind that has a session of its own and no parent.
"""

from __future__ import annotations

from fastness.attack import survivors
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, sys

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 64)
        os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(8)', MARK])
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
    id="program.daemon",
    claim=Claim(Guarantee.WALL_KILL, "A process with a session of its own ends with the program."),
    tiers={
        "container": Expect(Layer.NAMESPACE, outcomes=("ok", "timeout", "guest_error")),
        "isolated": Expect(Layer.NAMESPACE, outcomes=("ok", "timeout", "guest_error")),
    },
    attack=attack,
    control=control,
    slow=True,
)
