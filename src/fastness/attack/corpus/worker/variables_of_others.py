"""
Reads the environment of every process that it can see.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

for pid in [str(VICTIM), *filter(str.isdigit, os.listdir('/proc'))]:
    try:
        print(open(f'/proc/{pid}/environ', 'rb').read())
    except OSError as error:
        print(error)
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
    id="worker.variables_of_others",
    claim=Claim(Guarantee.ENV_SCRUBBED, "The module firewall refuses the variables of other processes."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
