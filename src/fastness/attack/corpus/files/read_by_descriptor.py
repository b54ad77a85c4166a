"""
Opens the root folder and looks up files relative to its descriptor.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

root = os.open('/', os.O_RDONLY)
try:
    found = os.open(SECRET_FILE.lstrip('/'), os.O_RDONLY, dir_fd=root)
except (NotImplementedError, TypeError):
    found = os.open('/' + SECRET_FILE.lstrip('/'), os.O_RDONLY)
print(os.read(found, 1000))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="files.read_by_descriptor",
    claim=Claim(Guarantee.FS_CONFINED, "A descriptor of the root folder opens nothing of this machine."),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
