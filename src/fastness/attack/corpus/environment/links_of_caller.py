"""
Reads where the links in /proc of the process that runs the sandbox lead: its folder, its files, its program.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

# Its folder has the secret's name in it.
for pid in {CALLER, os.getppid(), 1}:
    try:
        numbers = os.listdir(f'/proc/{pid}/fd')
    except OSError:
        numbers = range(256)
    for name in ('cwd', 'exe', 'root', *(f'fd/{number}' for number in numbers)):
        try:
            print(os.readlink(f'/proc/{pid}/{name}'))
        except OSError as error:
            pass
    for name in ('environ', 'maps', 'cmdline', 'stack', 'auxv', 'mountinfo', 'fdinfo/1', 'status'):
        try:
            print(open(f'/proc/{pid}/{name}', errors='replace').read(65536))
        except OSError as error:
            pass
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with _folder(arena) as held:
        return native.tried(arena, arena.python(CODE, CALLER=held), arena.token, "read links and files of the caller")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    with _folder(arena) as held:
        return arena.said(arena.outside.run(arena.python(CODE, CALLER=held)), arena.token, "read them")


@contextlib.contextmanager
def _folder(arena: Arena) -> Iterator[int]:
    """This process, with a file open whose name is the secret."""
    with open(arena.folder / arena.token, "w", encoding="ascii"):
        yield os.getpid()


ATTACK = Attack(
    id="environment.links_of_caller",
    claim=Claim(Guarantee.ENV_SCRUBBED, "What /proc knows of the caller's process is out of reach."),
    tiers={
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
