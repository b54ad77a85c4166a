"""
Starts a program from a program.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import subprocess, sys

subprocess.run([sys.executable, '-c', 'pass'], check=True)
print('STARTED')
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return arena.said(arena.program(CODE), "STARTED", "started a program")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "STARTED", "started a program")


SAYS = "A command starts programs."
ATTACK = Attack(
    id="program.starts_programs",
    claim=Claim(Guarantee.SYSCALL_FILTERED, SAYS),
    tiers=dict.fromkeys(("container", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
