"""
Writes to the system's folders and to the interpreter's own files.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import json, os, sys

system = ['/', '/usr', '/usr/lib', '/etc', '/dev', '/bin', '/run', '/var', '/proc', '/sys']
places = [sys.prefix, os.path.dirname(json.__file__), *system]
for place in PLACES or places:
    name = os.path.join(place, NAME)
    for attempt, undo in (
        # Only what is new is made, and only what was made is taken away.
        (lambda: os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)), os.unlink),
        (lambda: os.mkdir(name), os.rmdir),
    ):
        try:
            attempt()
            print('WROTE', name)
            undo(name)
        except OSError as error:
            print(error)
for path in [] if PLACES else [json.__file__, sys.executable, '/usr/bin/env', '/etc/passwd']:
    try:
        # Opened as it is, and nothing is written.
        os.close(os.open(path, os.O_WRONLY))
        print('WROTE', path)
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, arena.python(CODE, PLACES=None), "WROTE", "wrote")


def control(arena: Arena) -> Effect:
    """In a folder that everybody may write to; the system's own are left alone."""
    return arena.said(arena.outside.run(arena.python(CODE, PLACES=[str(arena.folder)])), "WROTE", "wrote")


ATTACK = Attack(
    id="files.system_written",
    claim=Claim(Guarantee.FS_CONFINED, "Neither the system's folders nor the interpreter's own can be written."),
    tiers={
        "confined": Expect(Layer.LANDLOCK),
        "container": Expect(Layer.NAMESPACE),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
