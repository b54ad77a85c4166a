"""
Starts a program by the system calls' own names.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

for name in ('posix_spawnp', 'spawnlp', 'execlp', 'execvp'):
    call = getattr(os, name, None)
    print(name, call)
    if name == 'posix_spawnp' and call is not None:
        os.waitpid(call('touch', ['touch', MARK_FILE], os.environ), 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="process.spawn",
    claim=Claim(Guarantee.NO_EXEC, "No call starts a program."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
