"""
Walks every folder it can see in search of secrets.
"""

from __future__ import annotations

import sys

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, stat

# The control looks where the secret is; in a guest that folder does not exist, so the whole tree is walked.
top = os.path.dirname(SECRET_FILE)
for folder, inner, names in os.walk(top if os.path.isdir(top) else '/'):
    # A native guest is shown this machine's programs and libraries, where secrets of anybody's are not.
    inner[:] = [name for name in inner if os.path.join(folder, name) not in SKIPPED]
    for name in names:
        try:
            # To open anything else may wait for ever, or do something.
            if not stat.S_ISREG(os.stat(os.path.join(folder, name)).st_mode):
                continue
            with open(os.path.join(folder, name), 'rb') as file:
                print(name, file.read(200))
        except OSError:
            pass
"""
_SKIPPED = ("/usr", sys.base_prefix, sys.prefix)


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.python(CODE, SKIPPED=_SKIPPED)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(arena.python(CODE, SKIPPED=_SKIPPED)))


ATTACK = Attack(
    id="files.read_by_walk",
    claim=Claim(Guarantee.FS_CONFINED, "Walking the whole tree finds nothing of this machine."),
    tiers={
        "wasm": Expect(Layer.ABSENT),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
