"""
Leaves folders and attributes for whoever has a run's folders next, once they may have been made ready for others.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import os, tempfile

for folder in ('.', tempfile.gettempdir()):
    try:
        # A new folder of a name that nobody has: what is there already is left alone.
        os.mkdir(os.path.join(folder, NAME))
        open(os.path.join(folder, NAME, 'x'), 'x').write(TOKEN)
    except OSError as error:
        print(error)
    try:
        os.setxattr(os.path.join(folder, NAME), 'user.' + NAME, TOKEN.encode())
        os.setxattr(folder, 'user.' + NAME, TOKEN.encode())
    except (OSError, AttributeError) as error:
        print(error)
"""
SECOND = """
import os, tempfile

for folder in ('.', tempfile.gettempdir()):
    for path in (folder, os.path.join(folder, NAME)):
        try:
            print(path, os.listdir(path))
        except OSError as error:
            print(error)
        try:
            print(os.getxattr(path, 'user.' + NAME))
        except (OSError, AttributeError) as error:
            print(error)
    try:
        print(open(os.path.join(folder, NAME, 'x')).read())
    except OSError as error:
        print(error)
"""
#: Runs that leave something, for the folders of the first ones are not used again; runs that look; and seconds before
#: each: by then what was used is given back.
_LEAVES = 4
_LOOKS = 3
_PAUSE_S = 0.05


def attack(arena: Arena) -> Effect:
    """In the tier: several runs, one after the other, look for what others have left."""
    try:
        for _ in range(_LEAVES):
            arena.run(arena.python(FIRST, TOKEN=arena.token))
            time.sleep(_PAUSE_S)
        effects = []
        for _ in range(_LOOKS):
            time.sleep(_PAUSE_S)
            effects.append(arena.leaked(arena.run(arena.python(SECOND))))
        return next((effect for effect in effects if effect.happened), effects[0])
    finally:
        shutil.rmtree(os.path.join(tempfile.gettempdir(), arena.name), ignore_errors=True)


def control(arena: Arena) -> Effect:
    """The same two programs in one interpreter."""
    try:
        return arena.leaked(arena.outside.in_process(arena.python(FIRST, TOKEN=arena.token), arena.python(SECOND)))
    finally:
        shutil.rmtree(os.path.join(tempfile.gettempdir(), arena.name), ignore_errors=True)


ATTACK = Attack(
    id="state.folder_again",
    claim=Claim(Guarantee.ADDRESS_SPACE, "A folder that a run has had is the next one's only as it was made."),
    tiers={
        "worker": Expect(Layer.FRESH),
        "confined": Expect(Layer.FRESH),
        "isolated": Expect(Layer.FRESH),
    },
    attack=attack,
    control=control,
)
