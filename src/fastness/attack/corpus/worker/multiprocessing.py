"""
Starts a process with the package for it, which uses none of the audited functions.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import multiprocessing.util, os, sys

read, write = os.pipe()
pid = multiprocessing.util.spawnv_passfds(b'/usr/bin/touch', [b'touch', MARK_FILE.encode()], [])
os.waitpid(pid, 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.multiprocessing",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `multiprocessing`."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
