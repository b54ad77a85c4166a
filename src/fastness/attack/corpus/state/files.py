"""
Leaves files for whoever runs next.
"""

from __future__ import annotations

import os
import tempfile

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import os, tempfile

for folder in ('.', tempfile.gettempdir(), os.path.expanduser('~')):
    try:
        # A new file of a name that nobody has: what is there already is left alone.
        open(os.path.join(folder, NAME), 'x').write(TOKEN)
    except OSError as error:
        print(error)
"""
SECOND = """
import os, tempfile

for folder in ('.', tempfile.gettempdir(), os.path.expanduser('~')):
    try:
        path = os.path.join(folder, NAME)
        print(open(path).read())
        os.unlink(path)
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier: the first run leaves something, the second looks for it."""
    try:
        arena.run(arena.python(FIRST, TOKEN=arena.token))
        return arena.leaked(arena.run(arena.python(SECOND)))
    finally:
        for folder in (tempfile.gettempdir(), os.path.expanduser("~")):
            if os.path.isfile(path := os.path.join(folder, arena.name)):
                os.unlink(path)


def control(arena: Arena) -> Effect:
    """The same two programs in one interpreter."""
    bare = arena.outside.in_process(arena.python(FIRST, TOKEN=arena.token), arena.python(SECOND))
    return arena.leaked(bare)


ATTACK = Attack(
    id="state.files",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Nothing that a run writes is there in the next, in any folder."),
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
