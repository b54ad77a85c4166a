"""
Writes a file of the machine by its absolute path.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, allowed
from fastness.tier import Guarantee

CODE = """
open(MARK_FILE, 'w').write('x')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="files.write_absolute",
    claim=Claim(Guarantee.FS_CONFINED, "No file of this machine can be made."),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
        "worker": allowed("A guest makes files wherever its user may."),
    },
    attack=attack,
    control=control,
)
