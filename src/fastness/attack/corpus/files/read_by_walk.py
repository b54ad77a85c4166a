"""
Walks every folder it can see in search of secrets.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

# The control looks where the secret is; in a guest that folder does not exist, so the whole tree is walked.
top = os.path.dirname(SECRET_FILE)
for folder, _, names in os.walk(top if os.path.isdir(top) else '/'):
    for name in names:
        try:
            with open(os.path.join(folder, name), 'rb') as file:
                print(name, file.read(200))
        except OSError:
            pass
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="files.read_by_walk",
    claim=Claim(Guarantee.FS_CONFINED, "Walking the whole tree finds nothing of this machine."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
