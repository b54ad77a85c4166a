"""
Reads the memory of another process of the same user.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import time

for attempt in range(50):
    maps = open(f'/proc/{VICTIM}/maps').read().splitlines()
    readable = [line for line in maps if ' r' in line and '[heap]' in line]
    if readable:
        break
    time.sleep(0.02)
memory = open(f'/proc/{VICTIM}/mem', 'rb', buffering=0)
memory.seek(int(readable[0].split('-')[0], 16))
print('DONE', len(memory.read(16)))
"""


def attack(arena: Arena) -> Effect:
    """In the tier, while a process of the same user has something to hide."""
    victim = arena.victim()
    return arena.said(arena.run(arena.python(CODE, VICTIM=victim.pid)), "DONE", "read memory")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    victim = arena.victim()
    return arena.said(arena.outside.run(arena.python(CODE, VICTIM=victim.pid)), "DONE", "read memory")


ATTACK = Attack(
    id="worker.memory_of_others",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses the memory of other processes."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
