"""
Writes to memory of processes by way of /proc.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
memory = open('/proc/self/mem', 'r+b', buffering=0)
start = int(open('/proc/self/maps').readline().split('-')[0], 16)
memory.seek(start)
print('READ', memory.read(4))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "READ", "read memory")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "READ", "read memory")


ATTACK = Attack(
    id="process.memory_of_others",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Memory of processes cannot be reached through /proc."),
    tiers={
        "wasm": Expect(Layer.WASI, "absent"),
        "worker": Expect(Layer.GUEST, "unsupported"),
        "confined": Expect(Layer.LANDLOCK),
        "isolated": Expect(Layer.NAMESPACE),
    },
    attack=attack,
    control=control,
)
