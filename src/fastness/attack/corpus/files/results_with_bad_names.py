"""
Names result files so that a careless collector writes them elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

# What exists is never opened, and nobody else has files of this name.
names = [f'../{NAME}', f'..\\\\{NAME}', f'a/../../{NAME}', f'{ROOT}/{NAME}', f'C:{NAME}', '~', '\\x1b[2J']
for name in [*names, MARK_FILE.replace('/', '\\\\')]:
    try:
        os.makedirs('a', exist_ok=True)
        open(name, 'x').write('x')
    except OSError as error:
        print(repr(name), error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; the results are saved as a caller would save them."""
    result = arena.run(arena.python(CODE, ROOT=""))
    if os.path.isfile(left := f"/{arena.name}"):
        os.unlink(left)
        return Effect(True, "it made a file in the root folder of this machine", result)
    folder = arena.folder / "saved"
    before = _everything(arena)
    written = result.files.save(folder)
    strays = [path for path in _everything(arena) - before if path != folder and folder not in path.parents]
    return Effect(bool(strays), f"{len(written)} files were saved, {len(strays)} of them elsewhere")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed, and a collector that takes names for paths, however they are spelt."""
    arena.outside.run(arena.python(CODE, ROOT=str(arena.folder)))
    folder = arena.folder / "saved"
    folder.mkdir()
    for name in os.listdir(arena.work):
        if (arena.work / name).is_file():
            (folder / name.replace("\\", "/")).write_bytes((arena.work / name).read_bytes())
    return Effect(arena.mark_file.exists(), "a file was saved elsewhere" if arena.mark_file.exists() else "none was")


def _everything(arena: Arena) -> set[Path]:
    return set(arena.folder.rglob("*"))


ATTACK = Attack(
    id="files.results_with_bad_names",
    claim=Claim(Guarantee.FS_CONFINED, "The names of results cannot lead out of the folder that they are saved in."),
    tiers={
        "wasm": Expect(Layer.HOST),
        "confined": Expect(Layer.HOST),
        "container": Expect(Layer.HOST),
        "isolated": Expect(Layer.HOST),
    },
    attack=attack,
    control=control,
)
