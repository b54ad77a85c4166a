"""
Overflows the stack of native code with deeply nested data.
"""

from __future__ import annotations

from fastness.attack import serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
nested = ()
for _ in range(1_000_000):
    nested = (nested,)
hash(nested)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    return serving.after(arena, CODE)


def control(arena: Arena) -> Effect:
    """The same two programs where the executor is the interpreter itself."""
    return serving.in_process(arena, CODE)


ATTACK = Attack(
    id="limits.native_stack",
    claim=Claim(Guarantee.CRASH_CONTAINED, "An overflow of the native stack ends the run and nothing else."),
    tiers={
        "wasm": Expect(Layer.ENGINE, outcomes=("crashed", "guest_error")),
        "worker": Expect(Layer.ENGINE, outcomes=("crashed", "guest_error")),
        "confined": Expect(Layer.ENGINE, outcomes=("crashed", "guest_error")),
        "container": Expect(Layer.ENGINE, outcomes=("crashed", "guest_error")),
        "isolated": Expect(Layer.ENGINE, outcomes=("crashed", "guest_error")),
    },
    attack=attack,
    control=control,
    slow=True,
)
