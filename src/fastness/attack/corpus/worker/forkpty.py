"""
Becomes two processes with a terminal between them.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

pid, terminal = os.forkpty()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "has had a child")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "has had a child")


ATTACK = Attack(
    id="worker.forkpty",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses `os.forkpty`."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
