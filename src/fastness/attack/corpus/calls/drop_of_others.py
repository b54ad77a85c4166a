"""
Says that nobody wants the answers of calls that other runs have made, by their numbers.
"""

from __future__ import annotations

import threading
import time

from fastness.attack import asking
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

#: Waits for something slow, as long as it takes.
VICTIM = "\ncall(1, 'notes', 'slow')\nanswer()\n"
#: A host with one table of calls for all that it serves.
_SHARED = """
calls = {VICTIM_CALL: 'under way'}

def frame(kind, head):
    if kind == 0x44:
        calls.pop(head['id'], None)

exec(CODE)
print('SPARED' if calls else 'DROPPED', flush=True)
"""

CODE = """
for id in range(1, 40):
    frame(0x44, {'id': id})
"""


def attack(arena: Arena) -> Effect:
    """In the tier, while a run of another owner waits for a call."""
    found: list[Effect] = []
    other = threading.Thread(target=lambda: found.append(arena.marked(asking.ask(arena, VICTIM, owner="other")[0])))
    other.start()
    time.sleep(0.3)
    result, _ = asking.ask(arena, CODE)
    other.join()
    # The effect that the other asked for is what must happen: its number was dropped by somebody else.
    hindered = not found or not found[0].happened
    return Effect(hindered, f"the other run's call {'never happened' if hindered else 'happened'}", result)


def control(arena: Arena) -> Effect:
    """Before a host whose guests share one table of calls."""
    text = arena.python(_SHARED, VICTIM_CALL=1, CODE=CODE)
    bare = arena.outside.run(text)
    return arena.said(bare, "DROPPED", "ended another's call")


ATTACK = Attack(
    id="calls.drop_of_others",
    claim=Claim(Guarantee.ADDRESS_SPACE, "A number that a guest says is one of its own calls."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("ok", "protocol"))),
    attack=attack,
    control=control,
)
