"""
Has programs write to this machine, by a shell, by a name of a program that is one, and by files to work on.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.process import ProcessScope
from fastness.tier import Guarantee

CODE = """
attempt(ctx.process.run, argv=['sh', '-c', 'echo > ' + MARK_FILE])
attempt(ctx.process.run, argv=['touch', MARK_FILE])
for name in (MARK_FILE, '../' * 20 + MARK_FILE[1:], 'a/../' + '../' * 20 + MARK_FILE[1:]):
    attempt(ctx.process.run, argv=['true'], files={name: b'x'})
attempt(ctx.process.run, argv=['true', ';touch ' + MARK_FILE])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with programs granted."""
    with brokering.programs(arena) as broker:
        result = broker.run(CODE, ProcessScope(runs=9, seconds=3.0))
        return arena.marked(result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE)
    return arena.marked(bare)


ATTACK = Attack(
    id="broker.process_writes",
    claim=Claim(Guarantee.FS_CONFINED, "A program that a guest asks for changes nothing on this machine."),
    tiers=dict.fromkeys(("wasm", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
