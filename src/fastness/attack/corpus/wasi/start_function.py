"""
Computes without end before the module has started: in the function that runs as it is made.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    (call $say)
"""
BEFORE = """
  (func $early
    (local $i i64)
    (loop $again
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br_if $again (i64.lt_u (local.get $i) (i64.const 4000000000)))))
  (start $early)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.module(assemble(module(BODY, before=BEFORE)), timeout=0.5), "SURVIVED", "finished")


def control(arena: Arena) -> Effect:
    """The same module in a runtime that grants everything and limits nothing."""
    return arena.said(arena.outside.module(assemble(module(BODY, before=BEFORE))), "SURVIVED", "finished")


ATTACK = Attack(
    id="wasi.start_function",
    claim=Claim(Guarantee.WALL_KILL, "The time limit covers the making of a module too."),
    tiers={"wasm": Expect(Layer.LIMIT, outcomes=("timeout",))},
    attack=attack,
    control=control,
    slow=True,
)
