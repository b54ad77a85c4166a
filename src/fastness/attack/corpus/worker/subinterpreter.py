"""
Starts an interpreter within the interpreter, which has no hooks yet.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sys

for name in ('_xxsubinterpreters', '_interpreters'):
    try:
        interpreters = __import__(name)
        break
    except ModuleNotFoundError:
        pass
one = interpreters.create()
code = f'import os; os.system({"touch " + MARK_FILE!r})'
(interpreters.run_string if hasattr(interpreters, 'run_string') else interpreters.exec)(one, code)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.subinterpreter",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses interpreters within the interpreter."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
