"""
Leaves something in every folder of its container that can be written to, for whoever runs next or beside it.
"""

from __future__ import annotations

from fastness.attack import native, plain
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.runs import RunResult
from fastness.tier import Guarantee

#: Every place that something is mounted at, and those that an engine or an image may have left open.
_FOLDERS = """
import os

FOLDERS = {'.', '/', '/tmp', '/var/tmp', '/run', '/dev/shm', '/dev/mqueue', '/work', os.path.expanduser('~')}
with open('/proc/self/mountinfo') as file:
    FOLDERS.update(line.split()[4] for line in file)
FOLDERS = sorted(folder for folder in FOLDERS if os.path.isdir(folder))
"""
FIRST = (
    _FOLDERS
    + """
left = 0
for folder in FOLDERS:
    try:
        with open(os.path.join(folder, NAME), 'x') as file:
            file.write(TOKEN)
        left += 1
    except OSError:
        pass
"""
)
_SAYS = "print('LEFT' if left > 1 else '', flush=True)\n"
SECOND = (
    _FOLDERS
    + """
for folder in FOLDERS:
    try:
        print(open(os.path.join(folder, NAME)).read(), flush=True)
    except OSError:
        pass
print('LOOKED', flush=True)
"""
)
#: One that is still there while the other one looks.
_STAYS = """
import time

print('READY', os.getpid(), flush=True)
time.sleep(1.5)
"""
_ONE_CONTAINER = """
import subprocess, sys

for code in CODES:
    subprocess.run([sys.executable, '-I', '-c', code])
"""


def attack(arena: Arena) -> Effect:
    """Code after code and program after program, with a container that was made ahead, and one beside another."""
    first, second = arena.python(FIRST, TOKEN=arena.token), arena.python(SECOND)
    found: list[RunResult] = []

    def look(run: object = None) -> None:
        found.append(arena.run(second))

    for _ in range(2):
        _left(arena.run(first + _SAYS))
        look()
    _left(arena.program(first + _SAYS))
    found.append(arena.program(second))
    native.while_running(arena, first + _STAYS, look)
    effects = [arena.leaked(result) for result in found]
    if not all(b"LOOKED" in result.stdout_bytes for result in found):
        raise RuntimeError("one of the programs did not look everywhere")
    return next((one for one in effects if one.happened), effects[-1])


def _left(result: RunResult) -> None:
    if b"LEFT" not in result.stdout_bytes:
        raise RuntimeError(f"nothing was left anywhere: {result.outcome.detail}")


def control(arena: Arena) -> Effect:
    """The same two programs in one container."""
    engine = plain.engine()
    codes = [arena.python(FIRST, TOKEN=arena.token), arena.python(SECOND)]
    said = plain.run(engine, plain.body(engine, f"CODES = {codes!r}\n{_ONE_CONTAINER}"))
    count = said.count(arena.token.encode())
    return Effect(count > 1, f"the second of two programs in one container read it in {count} folders")


ATTACK = Attack(
    id="containers.left_in_folders",
    claim=Claim(
        Guarantee.ADDRESS_SPACE,
        "What a run leaves in any folder of its container is not there for the next, or for one beside it.",
    ),
    tiers={"container": Expect(Layer.FRESH)},
    attack=attack,
    control=control,
    slow=True,
)
