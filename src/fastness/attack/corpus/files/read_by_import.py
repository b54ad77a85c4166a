"""
Puts a folder of the machine on the import path and imports a module from it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sys

sys.path.insert(0, FOLDER)
try:
    import stolen_settings
except ImportError as error:
    print(error)
else:
    print(stolen_settings.PASSWORD)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(_program(arena)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(_program(arena)))


def _program(arena: Arena) -> str:
    (arena.folder / "stolen_settings.py").write_text(f"PASSWORD = {arena.token!r}")
    return arena.python(CODE, FOLDER=str(arena.folder))


ATTACK = Attack(
    id="files.read_by_import",
    claim=Claim(Guarantee.FS_CONFINED, "Code and data of this machine cannot be imported."),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
