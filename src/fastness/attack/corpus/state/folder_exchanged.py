"""
A package that is imported ahead puts a link in the place of a guest's folder, before the guest's walls stand.

It has the guest's rights by then, and the host still has to see to that folder: what is beside the link is the host's.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import fastness
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

#: How many guests it is tried with: the host may be at its work in each of them.
GUESTS = 4
CODE = """
import os

def exchange():
    own = os.path.dirname(os.environ["HOME"])
    for path, target in ((own, OUTSIDE), (own + "/tmp", OUTSIDE + "/tmp"), (own + "/work", OUTSIDE + "/work")):
        try:
            os.rename(path, path + ".moved")
            os.symlink(target, path)
        except OSError as error:
            print(error)

os.register_at_fork(after_in_child=exchange)
"""
#: A host that cleans up after a guest by the names that it has given to its folders.
NAIVE = """
import os

os.environ["HOME"] = OWN + "/work"
pid = os.fork()
if not pid:
    os._exit(0)
os.waitpid(pid, 0)
for name in ("work", "tmp"):
    os.rmdir(os.path.join(OWN, name))
"""


def attack(arena: Arena) -> Effect:
    """In a sandbox of its own, whose guests have the package."""
    outside = _outside(arena.shared_folder())
    packages = arena.shared_folder(0o755)
    package = packages / "exchanger.py"
    package.write_text(arena.python(CODE, OUTSIDE=str(outside)))
    package.chmod(0o644)
    result = None
    with fastness.Sandbox(tier=arena.tier, packages=[str(packages)], preload=["exchanger"], pool=0) as box:
        for _ in range(GUESTS):
            # A guest that finds no folder of its own is not born.
            with contextlib.suppress(fastness.BackendError):
                result = arena.came(box.run("1"))
    return _changed(outside, result)


def control(arena: Arena) -> Effect:
    """The same package, in a process whose folder is seen to by name."""
    outside = _outside(arena.folder / "outside")
    own = arena.folder / "own"
    for name in ("work", "tmp"):
        (own / name).mkdir(parents=True)
    arena.outside.run(arena.python(CODE + NAIVE, OUTSIDE=str(outside), OWN=str(own)))
    return _changed(outside, None)


def _outside(folder: Path) -> Path:
    """A folder of the host's like a guest's, with a file in it."""
    folder.mkdir(exist_ok=True)
    for name in ("work", "tmp"):
        (folder / name).mkdir()
    return folder


def _changed(outside: Path, result: fastness.RunResult | None) -> Effect:
    left = sorted(os.listdir(outside))
    owners = {os.lstat(outside / name).st_uid for name in left}
    if left != ["tmp", "work"]:
        return Effect(True, f"of the two folders outside there are {left}", result)
    if owners != {os.getuid()}:
        return Effect(True, f"the folders outside are of {owners} now", result)
    return Effect(False, "the folders outside are as they were", result)


ATTACK = Attack(
    id="state.folder_exchanged",
    claim=Claim(Guarantee.FS_CONFINED, "What is imported ahead cannot lead the host to other folders than a guest's."),
    tiers={"confined": Expect(Layer.HOST)},
    attack=attack,
    control=control,
)
