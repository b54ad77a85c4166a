"""
Has a program read a file of this machine.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.process import ProcessScope
from fastness.tier import Guarantee

CODE = """
for argv in (['cat', SECRET_FILE], ['sh', '-c', 'cat ' + SECRET_FILE], ['cat', '/proc/1/root' + SECRET_FILE]):
    attempt(ctx.process.run, argv=argv)
attempt(ctx.process.run, argv=['sh', '-c', 'cat "$0"', SECRET_FILE])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with programs granted."""
    with brokering.programs(arena) as broker:
        result = broker.run(CODE, ProcessScope(runs=9, seconds=3.0))
        return arena.leaked(result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE)
    return arena.leaked(bare)


ATTACK = Attack(
    id="broker.process_reads",
    claim=Claim(
        Guarantee.FS_CONFINED,
        "A program that a guest asks for sees no file of this machine but programs and their libraries.",
    ),
    tiers=dict.fromkeys(("wasm", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
