"""
Prints control sequences that act on the terminal of whoever looks.
"""

from __future__ import annotations

import subprocess
import sys

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = r"""
import sys

evil = '\x1b]0;owned\x07\x1b[2J\x1b[6n\x9b31m\u202e'
print(evil)
print(evil, file=sys.stderr)
open(evil.replace('/', ''), 'w').write(evil)
try:
    open('/' + evil)
except OSError:
    pass
raise ValueError(evil)
"""
_ACTING = ("\x1b", "\x07", "\x9b", "\u202e")


def attack(arena: Arena) -> Effect:
    """By way of the command line, both streams read."""
    command = [sys.executable, "-m", "fastness.cli", "run", "--tier", arena.tier, "-c", CODE]
    done = subprocess.run(command, capture_output=True, check=False)
    return _effect(done.stdout + done.stderr, "owned")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    bare = arena.outside.run(CODE)
    return _effect(bare.stdout_bytes + bare.stderr_bytes, "owned")


def _effect(output: bytes, word: str) -> Effect:
    text = output.decode("utf-8", "replace")
    if word not in text:
        raise RuntimeError("the program did not run")
    found = [repr(character) for character in _ACTING if character in text]
    return Effect(bool(found), f"the terminal gets {', '.join(found)}" if found else "the terminal gets text only")


ATTACK = Attack(
    id="output.terminal_escapes",
    claim=Claim(Guarantee.OUTPUT_CAP, "The command line shows control characters and never sends them."),
    tiers={
        "wasm": Expect(Layer.HOST),
        "worker": Expect(Layer.HOST),
        "confined": Expect(Layer.HOST),
        "container": Expect(Layer.HOST),
        "isolated": Expect(Layer.HOST),
    },
    attack=attack,
    control=control,
)
