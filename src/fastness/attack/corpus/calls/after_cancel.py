"""
Has asked for something slow when its run is cancelled, and goes on asking.
"""

from __future__ import annotations

import threading
import time

from fastness.attack import asking
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import time
for id in range(1, 9):
    call(id, 'notes', 'slow')
    time.sleep(0.02)
answer()
"""


def attack(arena: Arena) -> Effect:
    """In the tier; it is waited for longer than it takes."""
    found: list[RunResult] = []
    run = threading.Thread(target=lambda: found.append(asking.ask(arena, CODE)[0]))
    run.start()
    time.sleep(0.4)
    arena.box.cancel()
    run.join()
    time.sleep(asking.SLOW_S)
    return arena.marked(found[0])


def control(arena: Arena) -> Effect:
    """Before a host that goes on with what it has begun."""
    return arena.marked(asking.careless(arena, CODE))


ATTACK = Attack(
    id="calls.after_cancel",
    claim=Claim(Guarantee.WALL_KILL, "Nothing that a guest asked for goes on once its run was cancelled."),
    tiers=dict.fromkeys(("isolated", "wasm"), Expect(Layer.HOST, outcomes=("cancelled",))),
    attack=attack,
    control=control,
    slow=True,
)
