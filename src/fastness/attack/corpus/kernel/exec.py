"""
Becomes another program.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
import sys
try:
    os.execv(sys.executable, [sys.executable, '-c', 'print("DONE")'])
except OSError as error:
    print(error)
result = call('execveat', -100, b'/bin/echo', (ctypes.c_char_p * 3)(b'echo', b'DONE', None), None, 0)
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "execveat"), "DONE", "was another program", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "execveat"), "DONE", "was another program")


ATTACK = Attack(
    id="kernel.exec",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code becomes no other program."),
    tiers={"confined": refused("execve", "execveat"), "isolated": refused("execve", "execveat")},
    attack=attack,
    control=control,
)
