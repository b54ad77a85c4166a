"""
Searches memory for what an earlier run held and freed.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
held = [TOKEN.encode() * 1000 for _ in range(2000)]
text = ''.join([TOKEN, '-kept'])
import builtins

builtins.kept = text
"""
SECOND = """
import gc

found = [item for item in gc.get_objects() if isinstance(item, dict)]
for item in found:
    for value in list(item.values()):
        if isinstance(value, str) and value.startswith('canary-'):
            print(value)
try:
    import numpy
except ImportError:
    numpy = None
if numpy is not None:
    raw = bytes(numpy.empty(64 << 20, dtype='u1').data)
    at = raw.find(b'canary-')
    if at >= 0:
        print(raw[at : at + 40])
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
    id="state.heap",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Memory of an earlier run is never seen by a later one."),
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
