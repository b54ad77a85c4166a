"""
Ends a process of this user by a descriptor of it, which no event tells of.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, signal

signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)
print('DONE')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "reached its parent")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "reached its parent")


ATTACK = Attack(
    id="worker.kill_by_descriptor",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses descriptors of processes."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
