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

WAT = """
(module
  (memory (export "memory") 1)
  (func $filling)
  (elem declare func $filling)
  TABLES
  (func (export "_start") FILLED))
"""
#: Says what the runtime has needed once the module has run.
_GRANTS = """
import atexit

def peak():
    # Not getrusage: that counts what the process was before it became this program.
    return int(next(line for line in open('/proc/self/status') if line.startswith('VmHWM:')).split()[1])

before = peak()
atexit.register(lambda: print('ALLOCATED' if peak() - before > 100 << 10 else 'little'))
"""
_MUCH = 100 << 20


def attack(arena: Arena) -> Effect:
    """In the tier: one that is large and is filled, and many."""
    arena.module(_module("", ""))
    before = peaks()
    seen = []
    for wasm in (_large(50_000_000), _module("(table 100000 funcref) " * 90, "")):
        try:
            seen.append(arena.module(wasm).outcome.kind.value)
        except FastnessError as error:
            seen.append(f"refused: {error}")
    grown = max((size - before.get(pid, _MUCH) for pid, size in peaks().items()), default=0)
    return Effect(grown > _MUCH, "; ".join(seen))


def control(arena: Arena) -> Effect:
    """The same large one, of half the size, in a runtime that makes what is declared."""
    return arena.said(arena.outside.module(_large(25_000_000), grants=_GRANTS), "ALLOCATED", "had it allocated")


def _large(size: int) -> bytes:
    fill = f"(table.fill $large (i32.const 0) (ref.func $filling) (i32.const {size}))"
    return _module(f"(table $large {size} funcref)", fill)


def _module(tables: str, filled: str) -> bytes:
    return assemble(WAT.replace("TABLES", tables).replace("FILLED", filled))


ATTACK = Attack(
    id="wasi.many_tables",
    claim=Claim(Guarantee.MEM_CAP, "Tables and memories that a module declares are capped."),
    tiers={"wasm": Expect(Layer.HOST)},
    attack=attack,
    control=control,
)
