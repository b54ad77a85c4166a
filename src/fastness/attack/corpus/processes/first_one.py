"""
Reads what /proc knows of the first process of a run, which is ours, and takes descriptors out of it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

for number in (1, os.getppid(), os.getpid() - 1):
    for name in ('mem', 'environ', 'maps', 'fd/3', 'fd/4', 'root/etc/shadow', 'cwd', 'exe', 'fd'):
        path = f'/proc/{number}/{name}'
        try:
            if name == 'fd':
                print('OPENED' if os.listdir(path) else '')
            elif name in ('exe', 'cwd'):
                print('OPENED', os.readlink(path))
            else:
                # Nothing is read: of a pipe that would take it from whom it is for.
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
                print('OPENED', path)
        except OSError as error:
            print(error)
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return arena.said(arena.program(CODE), "OPENED", "looked into the first process")


def control(arena: Arena) -> Effect:
    """Into its parent."""
    # Outside, a process looks into its parent's folder in /proc.
    return arena.said(
        arena.outside.run(CODE.replace("(1, os.getppid(), os.getpid() - 1)", "(os.getppid(),)")),
        "OPENED",
        "looked into its parent",
    )


ATTACK = Attack(
    id="processes.first_one",
    claim=Claim(Guarantee.ADDRESS_SPACE, "A program cannot look into the first process of its run."),
    tiers={"container": Expect(Layer.NAMESPACE), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
