"""
Reads and makes files of the machine as a program: by their paths, through links, and through /proc.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

parent = f'/proc/{os.getppid()}'
parts = ['', '/proc/1/root', '/proc/self/root', f'{parent}/root', f'{parent}/cwd', '/proc/1/cwd/../..']
for part in [*parts, *('../' * depth for depth in range(1, 12, 5))]:
    for path, mode in ((part + SECRET_FILE, 'r'), (part + MARK_FILE, 'w')):
        try:
            with open(path, mode) as file:
                print(file.read() if mode == 'r' else file.write('x'))
        except OSError as error:
            print(error)
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    result = arena.program(arena.python(CODE))
    effect = arena.leaked(result)
    return effect if effect.happened else arena.marked(result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed: it does both."""
    bare = arena.outside.run(arena.python(CODE))
    effect = arena.leaked(bare)
    return arena.marked(bare) if effect.happened else effect


ATTACK = Attack(
    id="files.from_a_program",
    claim=Claim(Guarantee.OWN_ROOT, "Programs reach no file of this machine by any path."),
    tiers={"container": Expect(Layer.NAMESPACE), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
