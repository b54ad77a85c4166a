"""
Reads the environment of another process by a path that is a kind of text of its own.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
class Path(str):
    pass

print(open(Path(f'/proc/{VICTIM}/environ'), 'rb').read())
"""


def attack(arena: Arena) -> Effect:
    """In the tier, while a process of the same user has something to hide."""
    victim = arena.victim()
    return arena.leaked(arena.run(arena.python(CODE, VICTIM=victim.pid)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    victim = arena.victim()
    return arena.leaked(arena.outside.run(arena.python(CODE, VICTIM=victim.pid)))


ATTACK = Attack(
    id="worker.variables_by_odd_path",
    claim=Claim(
        Guarantee.ENV_SCRUBBED, "The module firewall refuses the variables of other processes by a path of any kind."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
