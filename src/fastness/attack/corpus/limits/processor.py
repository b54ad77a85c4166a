"""
Uses the processor with as many threads as there are, for longer than it may.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import threading, time

def spin():
    end = time.monotonic() + 6
    while time.monotonic() < end:
        sum(range(1000))
threads = [threading.Thread(target=spin) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print('SURVIVED')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, limits={"cpu_s": 0.3}, timeout=5), "SURVIVED", "used six seconds")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    # A tenth of it shows that nobody stops it.
    return arena.said(arena.outside.run(CODE.replace("+ 6", "+ 0.6")), "SURVIVED", "used the processor")


ATTACK = Attack(
    id="limits.processor",
    claim=Claim(Guarantee.WALL_KILL, "Processor time is limited as time is."),
    tiers={
        "confined": Expect(Layer.LIMIT, outcomes=("cpu",)),
        "container": Expect(Layer.LIMIT, outcomes=("cpu",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("cpu",)),
    },
    attack=attack,
    control=control,
    slow=True,
)
