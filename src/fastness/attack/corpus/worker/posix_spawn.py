"""
Starts a program with one system call's worth of library.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

for name in ('/usr/bin/touch', '/bin/touch'):
    if os.path.exists(name):
        pid = os.posix_spawn(name, ['touch', MARK_FILE], {})
        os.waitpid(pid, 0)
        break
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.posix_spawn",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `os.posix_spawn`."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
