"""
Changes a module of the guest's own library for whoever runs next.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import json, os, sys

print(json.__file__)
for path in [*sys.path, os.path.dirname(json.__file__), '/usr/local/lib']:
    for name in (path, os.path.join(path, 'sitecustomize.py'), os.path.join(path, 'planted.py')):
        try:
            open(name, 'w').write("TOKEN = " + repr(TOKEN))
        except OSError as error:
            print(error)
"""
SECOND = """
import planted

print(planted.TOKEN)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    arena.run(arena.python(FIRST, TOKEN=arena.token))
    return arena.leaked(arena.run(arena.python(SECOND)))


def control(arena: Arena) -> Effect:
    """One program plants a module in the folder that is first on the path, the next one imports it."""
    first = "open('planted.py', 'w').write('TOKEN = ' + repr(TOKEN))"
    arena.outside.run(arena.python(first, TOKEN=arena.token))
    return arena.leaked(arena.outside.run(arena.python(SECOND)))


ATTACK = Attack(
    id="state.library",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The guest's library cannot be changed."),
    tiers={
        "wasm": Expect(Layer.FRESH),
        "confined": Expect(Layer.FRESH),
        "isolated": Expect(Layer.FRESH),
    },
    attack=attack,
    control=control,
)
