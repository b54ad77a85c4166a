"""
Starts threads without end.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import threading, time

threading.stack_size(1 << 16)
stop = threading.Event()
made = 0
try:
    for _ in range(MANY):
        threading.Thread(target=stop.wait, daemon=True).start()
        made += 1
except RuntimeError as error:
    print(error)
# Where they are counted now and then, they may be there until the next time.
time.sleep(1 if made >= MANY else 0)
print('MANY' if made >= MANY else made, flush=True)
stop.set()
"""


def attack(arena: Arena) -> Effect:
    """With 50 allowed."""
    return arena.said(arena.run(arena.python(CODE, MANY=1000), limits={"pids": 50}), "MANY", "had a thousand threads")


def control(arena: Arena) -> Effect:
    """Two hundred, which nobody stops."""
    return arena.said(arena.outside.run(arena.python(CODE, MANY=200)), "MANY", "had as many as it wanted")


ATTACK = Attack(
    id="limits.threads",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Threads past the limit end the run or cannot be made."),
    tiers={
        "confined": Expect(Layer.LIMIT, outcomes=("memory",)),
        "container": Expect(Layer.RLIMIT),
        "isolated": Expect(Layer.RLIMIT),
    },
    attack=attack,
    control=control,
)
