"""
Reads the environment of another process by an object that names another file when it is asked again.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import io

class Path:
    asked = 0

    def __fspath__(self):
        self.asked += 1
        return f'/proc/{VICTIM}/environ' if self.asked == 1 else '/dev/null'

print(io.FileIO(Path()).read())
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
    id="worker.variables_by_path_object",
    claim=Claim(Guarantee.ENV_SCRUBBED, "The module firewall refuses paths that it would have to ask for."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
