"""
Reads the files of another guest of the same sandbox while that runs, by every path that could lead there.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.runs import RunResult
from fastness.tier import Guarantee

SIBLING = """
import os, time

open('private', 'w').write(TOKEN)
print('READY', os.getpid(), flush=True)
time.sleep(0.7)
"""
CODE = """
import os

folder = os.path.dirname(os.getcwd())
looked = [FOLDER, *(f'/proc/{NUMBER}/{name}' for name in ('cwd', 'root', 'fd', 'fd/3'))]
try:
    looked += [os.path.join(folder, name) for name in os.listdir(folder)]
except OSError as error:
    print(error)
for path in looked:
    for name in ('private', ''):
        try:
            print(open(os.path.join(path, name)).read() if name else os.listdir(path))
        except OSError as error:
            print(error)
"""


def attack(arena: Arena) -> Effect:
    """With another guest under way that has a secret in its folder."""
    results: list[RunResult] = []

    def look(number: int) -> None:
        folders = native.folders_of(arena)
        if arena.tier == "confined" and not folders:
            raise RuntimeError("the folder of the guest that is looked for is nowhere")
        folder = next(iter(folders), "/work")
        results.append(arena.run(arena.python(CODE, FOLDER=folder, NUMBER=number)))
        if arena.tier == "isolated" and arena.has_programs():
            results.append(arena.program(arena.python(CODE, FOLDER=folder, NUMBER=number)))

    native.while_running(arena, arena.python(SIBLING, TOKEN=arena.token), look)
    effects = [arena.leaked(result) for result in results]
    return next((effect for effect in effects if effect.happened), effects[0])


def control(arena: Arena) -> Effect:
    """The same program, told of a folder of its own user."""
    folder = arena.folder / "sibling"
    folder.mkdir()
    (folder / "private").write_text(arena.token)
    return arena.leaked(arena.outside.run(arena.python(CODE, FOLDER=str(folder), NUMBER=0)))


ATTACK = Attack(
    id="state.files_of_siblings",
    claim=Claim(Guarantee.FS_CONFINED, "Guests of one sandbox cannot read each other's files."),
    tiers={
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
