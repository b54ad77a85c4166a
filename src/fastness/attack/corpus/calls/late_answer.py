"""
Asks and goes, so that whoever runs next on the same channel finds the answer, or asks and reads what was left there.
"""

from __future__ import annotations

from fastness.attack import asking
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

PLANTED = """
import time
for id in range(1, 9):
    call(id, 'notes', 'read', owner='other') if BELIEVED else call(id, 'notes', 'read')
time.sleep(0.1)
"""
CODE = """
call(1, 'notes', 'large', {'size': 1})
for _ in range(9):
    print(answer(), flush=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier: the first run is the other owner's, and does not read what it gets."""
    for _ in range(3):
        asking.ask(arena, _planted(False), owner="other")
        effect = arena.leaked(asking.ask(arena, CODE, timeout=0.5)[0])
        if effect.happened:
            break
    return effect


def control(arena: Arena) -> Effect:
    """Two guests one after another on one channel."""
    return arena.leaked(asking.careless(arena, _planted(True), CODE))


def _planted(believed: bool) -> str:
    return f"BELIEVED = {believed}\n{PLANTED}"


ATTACK = Attack(
    id="calls.late_answer",
    claim=Claim(Guarantee.ADDRESS_SPACE, "An answer reaches the run that asked, or nobody."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.ENGINE, outcomes=("ok", "timeout"))),
    attack=attack,
    control=control,
    slow=True,
)
