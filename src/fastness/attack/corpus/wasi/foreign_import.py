"""
Asks the host for a function that runs programs.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.errors import FastnessError
from fastness.tier import Guarantee

WAT = """
(module
  (import "env" "system" (func $system (param i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "touch mark\\00")
  (func (export "_start") (drop (call $system (i32.const 0)))))
"""
#: A host that exports more than it should.
NAIVE = """
import os

functions = {('env', 'system'): os.system}
functions['env', 'system'](f'touch {MARK_FILE}')
"""


def attack(arena: Arena) -> Effect:
    """In the tier: refused before it runs, or without the function."""
    try:
        result = arena.module(assemble(WAT))
    except FastnessError as error:
        return Effect(arena.mark_file.exists(), f"refused: {error}")
    return arena.marked(result)


def control(arena: Arena) -> Effect:
    """A host that provides the function."""
    return arena.marked(arena.outside.run(arena.python(NAIVE)))


ATTACK = Attack(
    id="wasi.foreign_import",
    claim=Claim(Guarantee.NO_SYSCALLS, "A module gets the system interface of preview 1 and nothing else."),
    tiers={"wasm": Expect(Layer.HOST)},
    attack=attack,
    control=control,
)
