"""
Catches whatever is thrown at it and goes on.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import time

end = time.monotonic() + 3
while time.monotonic() < end:
    try:
        while time.monotonic() < end:
            pass
    except BaseException:
        pass
    finally:
        time.sleep(0)
print('SURVIVED')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE), timeout=1), "SURVIVED", "ran three times its limit")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "SURVIVED", "ran three times its limit")


ATTACK = Attack(
    id="limits.catch_everything",
    claim=Claim(Guarantee.WALL_KILL, "The end of a run cannot be caught."),
    tiers={
        "wasm": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "worker": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "confined": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "container": Expect(Layer.LIMIT, outcomes=("timeout",)),
        "isolated": Expect(Layer.LIMIT, outcomes=("timeout",)),
    },
    attack=attack,
    control=control,
    slow=True,
)
