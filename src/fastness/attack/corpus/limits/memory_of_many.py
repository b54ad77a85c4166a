"""
Takes memory in many processes, each of which takes little.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, sys, time

children = []
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        held = bytearray(b'x') * (30 << 20)
        time.sleep(0.6)
        os._exit(0)
    children.append(pid)
endings = [os.waitpid(pid, 0)[1] for pid in children]
print('HELD' if not any(endings) else endings)
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    return arena.said(
        arena.program(CODE, memory="64M", limits={"file_bytes": 8 << 20}), "HELD", "held 300 MiB together"
    )


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "HELD", "held 300 MiB together")


ATTACK = Attack(
    id="limits.memory_of_many",
    claim=Claim(Guarantee.TOTAL_MEM_CAP, "Memory of all processes of a run counts together."),
    tiers={
        "container": Expect(Layer.CGROUP, outcomes=("ok", "memory", "crashed", "guest_error")),
        "isolated": Expect(Layer.CGROUP, outcomes=("ok", "memory", "crashed", "guest_error")),
    },
    attack=attack,
    control=control,
    slow=True,
)
