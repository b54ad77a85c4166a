"""
Declares more tables, elements and memory than a host would like to make.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.engines import peaks
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.errors import FastnessError
from fastness.tier import Guarantee

WAT = '(module (memory (export "memory") 1) {tables} (func (export "_start")))'
SAME = """
table = [None] * (25 << 20)
peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))
if int(peak.split()[1]) > 200 << 10:
    print('SURVIVED')
"""
_MUCH = 100 << 20


def attack(arena: Arena) -> Effect:
    """In the tier."""
    arena.module(assemble(WAT.format(tables="")))
    before = peaks()
    seen = []
    for tables in ("(table 50000000 funcref)", "(table 100000 funcref) " * 90):
        try:
            seen.append(arena.module(assemble(WAT.format(tables=tables))).outcome.kind.value)
        except FastnessError as error:
            seen.append(f"refused: {error}")
    grown = max((size - before.get(pid, _MUCH) for pid, size in peaks().items()), default=0)
    return Effect(grown > _MUCH, "; ".join(seen))


def control(arena: Arena) -> Effect:
    """A host that makes what is declared."""
    return arena.said(arena.outside.run(SAME), "SURVIVED", "allocated what was asked for")


ATTACK = Attack(
    id="wasi.many_tables",
    claim=Claim(Guarantee.MEM_CAP, "Tables and memories that a module declares are capped."),
    tiers={"wasm": Expect(Layer.HOST)},
    attack=attack,
    control=control,
)
