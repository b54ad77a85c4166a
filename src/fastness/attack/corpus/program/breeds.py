"""
Is never the same process for long: each makes the next and ends.
"""

from __future__ import annotations

from fastness.attack import survivors
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, sys, time

NEXT = (
    "import os, sys, time\\n"
    "end = time.monotonic() + 3\\n"
    "while time.monotonic() < end:\\n"
    "    time.sleep(0.06)\\n"
    "    if os.fork():\\n"
    "        os._exit(0)\\n"
    "    os.setsid()\\n"
)
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, '-c', NEXT, MARK])
print('gone')
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return survivors.tried(arena, arena.python(CODE, MARK=arena.token))


def control(arena: Arena) -> Effect:
    """Where whoever starts it ends only what was started."""
    return survivors.outside(arena, arena.python(CODE, MARK=arena.token))


ATTACK = Attack(
    id="program.breeds",
    claim=Claim(Guarantee.WALL_KILL, "Processes that make each other end with the program."),
    tiers={
        "container": Expect(Layer.NAMESPACE, outcomes=("ok", "timeout", "guest_error")),
        "isolated": Expect(Layer.NAMESPACE, outcomes=("ok", "timeout", "guest_error")),
    },
    attack=attack,
    control=control,
)
