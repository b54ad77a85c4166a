"""
Exchanges a file and a folder for links that lead out, over and over, while the results are collected.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

NAIVE = """
end = time.monotonic() + 5
while time.monotonic() < end:
    for path in ('one/secret.txt', 'two'):
        try:
            with open(path) as file:
                found = file.read()
        except OSError:
            continue
        if found:
            print(found, flush=True)
            os._exit(0)
"""
CODE = """
import os, threading, time

os.mkdir('folder')
open('folder/secret.txt', 'w').close()
open('file', 'w').close()
os.symlink(os.path.dirname(SECRET_FILE), 'out-folder')
os.symlink(SECRET_FILE, 'out-file')

def swap():
    while True:
        for name, as_what in (('folder', 'one'), ('out-folder', 'one'), ('file', 'two'), ('out-file', 'two')):
            os.rename(name, as_what)
            time.sleep(0)
            os.rename(as_what, name)

threading.Thread(target=swap, daemon=True).start()
"""


def attack(arena: Arena) -> Effect:
    """In a session, which lives on while its files are collected."""
    with arena.session() as session:
        result = session.execute(arena.python(CODE))
        if not result.ok:
            raise RuntimeError(f"nothing was swapped: {result.outcome.detail}")
        for _ in range(40):
            effect = arena.leaked(result)
            if effect.happened:
                return effect
            result = session.execute("1")
    return Effect(False, "nothing from outside was collected", result)


def control(arena: Arena) -> Effect:
    """A collector that looks first and opens then."""
    return arena.leaked(arena.outside.run(arena.python(CODE + NAIVE)))


ATTACK = Attack(
    id="files.swapped_while_collected",
    claim=Claim(Guarantee.FS_CONFINED, "Whatever changes under the collector, it collects nothing from outside."),
    tiers={"confined": Expect(Layer.HOST), "container": Expect(Layer.HOST), "isolated": Expect(Layer.HOST)},
    attack=attack,
    control=control,
)
