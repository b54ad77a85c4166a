"""
Asks whether a file of the machine exists, and how large it is.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, allowed
from fastness.tier import Guarantee

CODE = """
import os

print('KNOWN' if os.stat(SECRET_FILE).st_size == SIZE else 'something else')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(_code(arena)), "KNOWN", "learnt the size of a file")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(_code(arena)), "KNOWN", "learnt the size of a file")


def _code(arena: Arena) -> str:
    return arena.python(CODE, SIZE=len(arena.token))


ATTACK = Attack(
    id="metadata.size",
    claim=Claim(Guarantee.FS_CONFINED, "Nobody tells whether a file of this machine exists, nor its size."),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "confined": allowed("A guest learns whether a path exists, its size, times and owner."),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
