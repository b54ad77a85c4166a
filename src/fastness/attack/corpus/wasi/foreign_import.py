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
  (data (i32.const 0) "touch MARK\\00")
  (func (export "_start") (drop (call $system (i32.const 0)))))
"""
#: A host that exports more than it should.
_GRANTS = """
import os

def system(caller, at):
    return os.system(bytes(caller['memory'].read(caller, at, at + 4096)).split(b'\\0')[0])

i32 = wasmtime.ValType.i32()
linker.define_func('env', 'system', wasmtime.FuncType([i32], [i32]), system, access_caller=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier: refused before it runs, or without the function."""
    try:
        result = arena.module(_module(arena))
    except FastnessError as error:
        return Effect(arena.mark_file.exists(), f"refused: {error}")
    return arena.marked(result)


def control(arena: Arena) -> Effect:
    """The same module in a host that provides the function."""
    return arena.marked(arena.outside.module(_module(arena), grants=_GRANTS))


def _module(arena: Arena) -> bytes:
    return assemble(WAT.replace("MARK", str(arena.mark_file)))


ATTACK = Attack(
    id="wasi.foreign_import",
    claim=Claim(Guarantee.NO_SYSCALLS, "A module gets the system interface of preview 1 and nothing else."),
    tiers={"wasm": Expect(Layer.HOST)},
    attack=attack,
    control=control,
)
