"""
Reads what was staged for it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
print(open('given.txt').read())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(CODE, files={"given.txt": arena.token}), arena.token, "read it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed, where the file is."""
    (arena.work / "given.txt").write_text(arena.token)
    return arena.said(arena.outside.run(CODE), arena.token, "read it")


SAYS = "A guest reads copies of what was staged for it."
ATTACK = Attack(
    id="files.staged",
    claim=Claim(Guarantee.FS_CONFINED, SAYS),
    tiers=dict.fromkeys(("wasm", "confined", "container", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
