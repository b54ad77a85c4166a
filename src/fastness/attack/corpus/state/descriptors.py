"""
Leaves a file open for whoever runs next.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import os

left = os.open('left', os.O_RDWR | os.O_CREAT)
os.write(left, TOKEN.encode())
os.unlink('left') if os.name == 'posix' and hasattr(os, 'fork') else None
"""
SECOND = """
import os

for number in range(3, 64):
    try:
        os.lseek(number, 0, 0)
        print(os.read(number, 1000))
    except OSError:
        pass
"""


def attack(arena: Arena) -> Effect:
    """In the tier: the first run leaves something, the second looks for it."""
    arena.run(arena.python(FIRST, TOKEN=arena.token))
    return arena.leaked(arena.run(arena.python(SECOND)))


def control(arena: Arena) -> Effect:
    """The same two programs in one interpreter."""
    bare = arena.outside.in_process(arena.python(FIRST, TOKEN=arena.token), arena.python(SECOND))
    return arena.leaked(bare)


ATTACK = Attack(
    id="state.descriptors",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No descriptor of an earlier run is open in a later one."),
    tiers={
        "wasm": Expect(Layer.FRESH),
        "worker": Expect(Layer.FRESH),
        "confined": Expect(Layer.FRESH),
        "container": Expect(Layer.FRESH),
        "isolated": Expect(Layer.FRESH),
    },
    attack=attack,
    control=control,
)
