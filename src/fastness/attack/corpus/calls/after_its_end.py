"""
Asks for something slow and comes to its end before it has happened: by itself, and by its deadline.
"""

from __future__ import annotations

import time

from fastness.attack import asking
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODES = (
    """
call(1, 'notes', 'slow')
""",
    """
call(1, 'notes', 'slow')
answer()
""",
)


def attack(arena: Arena) -> Effect:
    """In the tier; then it is waited for longer than it takes."""
    results = [asking.ask(arena, code, timeout=0.4)[0] for code in CODES]
    time.sleep(asking.SLOW_S)
    effect = arena.marked(results[0])
    return Effect(effect.happened, effect.seen, results[0], tuple(results[1:]))


def control(arena: Arena) -> Effect:
    """Before a host that goes on with what it has begun."""
    return arena.marked(asking.careless(arena, *CODES))


ATTACK = Attack(
    id="calls.after_its_end",
    claim=Claim(Guarantee.WALL_KILL, "Nothing that a guest asked for goes on once its run has ended."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("ok", "timeout"))),
    attack=attack,
    control=control,
    slow=True,
)
