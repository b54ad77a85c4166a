"""
Starts threads without end.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import threading

stop = threading.Event()
for _ in range(50):
    threading.Thread(target=stop.wait, daemon=True).start()
print('MANY', threading.active_count())
stop.set()
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "MANY", "had many threads")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "MANY", "had many threads")


ATTACK = Attack(
    id="process.threads",
    claim=Claim(Guarantee.NO_EXEC, "A guest has one thread."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
