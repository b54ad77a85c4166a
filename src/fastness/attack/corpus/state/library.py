"""
Changes a module of the guest's own library for whoever runs next.
"""

from __future__ import annotations

import json
import os
import sys

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import json, os, sys

print(json.__file__)
for path in PLACES or [*sys.path, os.path.dirname(json.__file__), '/usr/local/lib']:
    try:
        # A new file of a name that nobody has: what is there already is left alone.
        with open(os.path.join(path, NAME + '.py'), 'x') as file:
            file.write("TOKEN = " + repr(TOKEN))
    except OSError as error:
        print(error)
"""
SECOND = """
import importlib, os

try:
    module = importlib.import_module(NAME)
except ImportError as error:
    print(error)
else:
    print(module.TOKEN)
    os.unlink(module.__file__)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    try:
        arena.run(arena.python(FIRST, TOKEN=arena.token, PLACES=None))
        return arena.leaked(arena.run(arena.python(SECOND)))
    finally:
        for place in (*sys.path, os.path.dirname(json.__file__), "/usr/local/lib"):
            if os.path.isfile(path := os.path.join(place, f"{arena.name}.py")):
                os.unlink(path)


def control(arena: Arena) -> Effect:
    """The same programs, unsandboxed, with the folder that is first on the path; the machine's are left alone."""
    arena.outside.run(arena.python(FIRST, TOKEN=arena.token, PLACES=[str(arena.work)]))
    return arena.leaked(arena.outside.run(arena.python(SECOND)))


ATTACK = Attack(
    id="state.library",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The guest's library cannot be changed."),
    tiers={
        "wasm": Expect(Layer.FRESH),
        "confined": Expect(Layer.FRESH),
        "container": Expect(Layer.FRESH),
        "isolated": Expect(Layer.FRESH),
    },
    attack=attack,
    control=control,
)
