"""
Reads the environment variables of the process that runs it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

print(dict(os.environ), os.environ.get(VARIABLE))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    # A guest of native tiers is a copy of a process: the tenant's first, so that it starts now.
    return arena.leaked(arena.run(arena.python(CODE), tenant=arena.folder.name))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="environment.read_variables",
    claim=Claim(Guarantee.ENV_SCRUBBED, "A guest sees only the variables that were passed."),
    tiers={
        "wasm": Expect(Layer.ABSENT),
        "worker": Expect(Layer.ABSENT),
        "confined": Expect(Layer.ABSENT),
        "container": Expect(Layer.ABSENT),
        "isolated": Expect(Layer.ABSENT),
    },
    attack=attack,
    control=control,
)
