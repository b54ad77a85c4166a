"""
Overwrites a file of the machine and deletes it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, allowed
from fastness.tier import Guarantee

CODE = """
import os

try:
    open(SECRET_FILE, 'w').write('gone')
except OSError as error:
    print(error)
os.unlink(SECRET_FILE)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(arena.python(CODE))
    return Effect(not _whole(arena), "the file is as it was" if _whole(arena) else "the file is gone", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    arena.outside.run(arena.python(CODE))
    return Effect(not _whole(arena), "the file is as it was" if _whole(arena) else "the file is gone")


def _whole(arena: Arena) -> bool:
    return arena.secret_file.exists() and arena.secret_file.read_text() == arena.token


ATTACK = Attack(
    id="files.destroy",
    claim=Claim(Guarantee.FS_CONFINED, "A file of this machine can be neither changed nor deleted."),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
        "worker": allowed("A guest changes and deletes every file that its user may."),
    },
    attack=attack,
    control=control,
)
