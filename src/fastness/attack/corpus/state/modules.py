"""
Leaves a value in a module that is already imported, or replaces one of its functions.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import json, sys

original = json.dumps
json.dumps = lambda *args, **options: TOKEN
for module in list(sys.modules.values()):
    try:
        module.left = TOKEN
    except Exception:
        pass
"""
SECOND = """
import json, sys

print(json.dumps(1))
print([getattr(module, 'left', None) for module in list(sys.modules.values())])
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
    id="state.modules",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Imported modules are as they were for every run."),
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
