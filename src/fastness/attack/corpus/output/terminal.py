"""
Looks for the terminal of whoever runs the sandbox, and writes to it past every filter of its output.
"""

from __future__ import annotations

import os
import subprocess
import sys

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

#: Makes the terminal the program's own before it starts.
STARTED = """
import fcntl, os, sys, termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
CODE = """
import os, sys

for number in range(20):
    try:
        if os.isatty(number):
            print('REACHED', number)
    except OSError:
        pass
for path in ('/dev/tty', '/dev/pts/0', TERMINAL, '/dev/console', '/dev/ptmx'):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NOCTTY))
        print('REACHED', path)
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """By way of the command line, on a terminal."""
    command = [sys.executable, "-m", "fastness.cli", "run", "--tier", arena.tier, "-c"]
    return _on_terminal(arena, command)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed, on a terminal."""
    return _on_terminal(arena, [sys.executable, "-c"])


def _on_terminal(arena: Arena, command: list[str]) -> Effect:
    ours, theirs = os.openpty()
    code = arena.python(CODE, TERMINAL=os.ttyname(theirs))
    with subprocess.Popen(
        [sys.executable, "-c", STARTED, *command, code],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        seen = b""
        while data := _read(ours):
            seen += data
        process.wait()
    os.close(ours)
    if b"o such" not in seen and b"REACHED" not in seen and b"ermission" not in seen:
        raise RuntimeError(f"the program did not run: {seen[-200:]!r}")
    reached = b"REACHED" in seen
    return Effect(reached, "it has the terminal" if reached else "it has no terminal")


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:
        # The other side has been closed by all who had it.
        return b""


ATTACK = Attack(
    id="output.terminal",
    claim=Claim(Guarantee.OUTPUT_CAP, "A guest has no way to the terminal that it was started from."),
    tiers={"wasm": Expect(Layer.HOST), "confined": Expect(Layer.HOST), "isolated": Expect(Layer.HOST)},
    attack=attack,
    control=control,
)
