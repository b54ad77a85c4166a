"""
Takes over the first process of its container, which holds the deadline and has the same user: reads and writes its
memory, takes its descriptors, sets its limits, signals it with everything.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

for attempt in (
    lambda: open(f'/proc/{FIRST}/mem', 'r+b').close(),
    lambda: open(f'/proc/{FIRST}/environ', 'rb').read(),
    lambda: os.listdir(f'/proc/{FIRST}/fd'),
    lambda: os.listdir(f'/proc/{FIRST}/map_files'),
    lambda: os.listdir(f'/proc/{FIRST}/cwd/'),
    lambda: open(f'/proc/{FIRST}/oom_score_adj', 'w').write('1000'),
):
    try:
        attempt()
        print('TAKEN', flush=True)
    except OSError as error:
        print(error.errno)
if FIRST == 1:
    import resource
    for attempt in (
        lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)),
        lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
        lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
        lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
    ):
        try:
            attempt()
            print('TAKEN', flush=True)
        except OSError as error:
            print(error.errno)
    for number in range(1, 65):
        try:
            os.kill(1, number)
        except (OSError, ValueError):
            pass
    print('still here')
"""
#: A process of the same user that is not closed to it.
OPEN = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
FIRST = child.pid
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and as a program."""
    return native.tried(arena, f"FIRST = 1\n{CODE}", "TAKEN", "took something over")


def control(arena: Arena) -> Effect:
    """The same with a process of the same user that does not close itself to it."""
    return native.outside(arena, f"{OPEN}{CODE}\nchild.kill()\nchild.wait()\n", "TAKEN", "took something over")


ATTACK = Attack(
    id="containers.first_process",
    claim=Claim(Guarantee.WALL_KILL, "Whoever holds a container's deadline is out of reach of what runs in it."),
    tiers={"container": Expect(Layer.PRIVILEGE)},
    attack=attack,
    control=control,
)
