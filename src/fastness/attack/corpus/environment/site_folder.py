"""
Waits in a folder of packages, in files that an interpreter runs by itself when it starts.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sys

print('PLANTED' if 'fastness_planted' in sys.modules else 'nothing')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    folder = _folder(arena)
    return arena.said(arena.run(CODE, packages=[folder], tenant=arena.folder.name), "PLANTED", "ran in the guest")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    program = f"import site; site.addsitedir({_folder(arena)!r})\n{CODE}"
    return arena.said(arena.outside.run(program), "PLANTED", "ran in the program")


def _folder(arena: Arena) -> str:
    folder = arena.shared_folder()
    text = "import sys; sys.modules['fastness_planted'] = sys\n"
    (folder / "planted.pth").write_text(text)
    (folder / "sitecustomize.py").write_text(text)
    return str(folder)


ATTACK = Attack(
    id="environment.site_folder",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Nothing in a folder of packages runs before it is imported."),
    tiers={"confined": Expect(Layer.FRESH), "isolated": Expect(Layer.FRESH)},
    attack=attack,
    control=control,
)
