"""
Leaves pipes, sockets, links and folders in a circle for whoever collects the results.
"""

from __future__ import annotations

import stat
from pathlib import Path

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.attack.outside import Bare
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import os, socket

for attempt in (
    lambda: os.mkfifo('pipe'),
    lambda: socket.socket(socket.AF_UNIX).bind('socket'),
    lambda: os.symlink(SECRET_FILE, 'link'),
    lambda: os.symlink('/proc/self/environ', 'environ'),
    lambda: os.symlink('/dev/zero', 'zero'),
    lambda: os.symlink('circle', 'circle'),
    lambda: os.symlink('.', 'around'),
    lambda: os.mkdir('no-entry', 0),
    lambda: (open('one', 'w').close(), os.link('one', 'two')),
):
    try:
        attempt()
    except (OSError, AttributeError) as error:
        # Some interpreters have not all of these; the others are tried all the same.
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, and in `isolated` as a program too; the results are saved as a caller would save them."""
    taken: list[RunResult] = [arena.run(arena.python(CODE))]
    if arena.tier == "isolated" and arena.has_programs():
        taken.append(arena.program(arena.python(CODE)))
    for number, result in enumerate(taken):
        folder = arena.folder / f"saved-{number}"
        result.files.save(folder)
        odd = [path for path in folder.rglob("*") if not stat.S_ISREG(path.lstat().st_mode) and not path.is_dir()]
        if odd:
            return Effect(True, f"{odd[0].name} was saved, which is no file")
        effect = arena.leaked(result)
        if effect.happened:
            return effect
    return Effect(False, "only files and folders were saved, and no secret")


def control(arena: Arena) -> Effect:
    """A collector that follows links."""
    arena.outside.run(arena.python(CODE))
    # What a careless collector does: it reads whatever has a name.
    return arena.leaked(Bare(b"".join(_read(path) for path in sorted(arena.work.iterdir())), b"", 0, arena.work))


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.name in ("link", "one") else b""


ATTACK = Attack(
    id="files.special_results",
    claim=Claim(
        Guarantee.FS_CONFINED, "What is collected is files of the run and nothing else, and collecting comes to an end."
    ),
    tiers={
        "wasm": Expect(Layer.HOST),
        "confined": Expect(Layer.HOST),
        "container": Expect(Layer.HOST),
        "isolated": Expect(Layer.HOST),
    },
    attack=attack,
    control=control,
)
