"""
Looks for a process that it has started, and ends it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, allowed
from fastness.tier import Guarantee

CODE = """
import os, signal, subprocess, sys

child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])
if str(child.pid) in os.listdir('/proc'):
    child.send_signal(signal.SIGKILL)
    print('ENDED' if child.wait() == -signal.SIGKILL else 'something else')
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return arena.said(arena.program(CODE), "ENDED", "saw a process of its own and ended it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "ENDED", "saw a process of its own and ended it")


SAYS = "A program sees and ends processes of its own command."
ATTACK = Attack(
    id="processes.of_its_own",
    claim=Claim(Guarantee.PID_HIDDEN, SAYS),
    tiers=dict.fromkeys(("container", "isolated"), allowed(SAYS)),
    attack=attack,
    control=control,
)
