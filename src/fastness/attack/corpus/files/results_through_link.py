"""
Plants a symbolic link in the work folder, so that whoever collects the results writes through it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

os.symlink(os.path.dirname(MARK_FILE), 'results')
open('results/' + os.path.basename(MARK_FILE), 'w').write('x')
"""


def attack(arena: Arena) -> Effect:
    """In the tier; the results are saved as a caller would save them."""
    result = arena.run(arena.python(CODE))
    result.files.save(arena.folder / "saved")
    return arena.marked(result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="files.results_through_link",
    claim=Claim(Guarantee.FS_CONFINED, "Saving results writes only below the folder that the caller names."),
    tiers={
        "wasm": Expect(Layer.WASI, "wasi_refused"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
