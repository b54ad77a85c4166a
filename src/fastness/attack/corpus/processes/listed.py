"""
Looks for processes of the machine, in /proc and by trying numbers.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

seen = set()
try:
    seen |= {int(name) for name in os.listdir('/proc') if name.isdigit()}
except OSError as error:
    print(error)
for number in {VICTIM, *range(1, 2000)}:
    if number == os.getpid():
        continue
    if os.path.exists(f'/proc/{number}'):
        seen.add(number)
    try:
        os.kill(number, 0)
        seen.add(number)
    except ProcessLookupError:
        pass
    except PermissionError:
        # Also what the filter answers for numbers that there are none of.
        pass
print('SEEN' if VICTIM in seen or len(seen) > 5 else seen)
"""


def attack(arena: Arena) -> Effect:
    """As Python code and as a program."""
    return native.tried(arena, arena.python(CODE, VICTIM=arena.victim().pid), "SEEN", "saw processes of this machine")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE, VICTIM=arena.victim().pid)), "SEEN", "saw processes")


ATTACK = Attack(
    id="processes.listed",
    claim=Claim(Guarantee.PID_HIDDEN, "No process of this machine can be seen."),
    tiers={"container": Expect(Layer.NAMESPACE), "isolated": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
