"""
Reads environments of processes by way of /proc.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

for pid in ('self', 'thread-self', str(os.getppid()) if hasattr(os, 'getppid') else '1'):
    try:
        print(open(f'/proc/{pid}/environ', 'rb').read())
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="environment.read_proc",
    claim=Claim(Guarantee.ENV_SCRUBBED, "The environments of processes cannot be read through /proc."),
    tiers={"wasm": Expect(Layer.WASI, "absent")},
    attack=attack,
    control=control,
)
