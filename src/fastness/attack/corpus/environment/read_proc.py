"""
Reads environments of processes by way of /proc.
"""

from __future__ import annotations

import os

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

for pid in ('self', 'thread-self', str(os.getppid()) if hasattr(os, 'getppid') else '1', '1', CALLER):
    try:
        print(open(f'/proc/{pid}/environ', 'rb').read())
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.python(CODE, CALLER=str(os.getpid()))))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(arena.python(CODE, CALLER=str(os.getpid()))))


ATTACK = Attack(
    id="environment.read_proc",
    claim=Claim(Guarantee.ENV_SCRUBBED, "The environments of processes cannot be read through /proc."),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "worker": Expect(Layer.GUEST, "unsupported"),
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
