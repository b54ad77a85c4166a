"""
Calls itself without end.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    (call $deeper)
"""
BEFORE = """
  (func $deeper (call $deeper) (call $deeper))
"""
SAME = """
import ctypes

# The same without a guard page of anybody's: native code that calls back into itself.
kind = ctypes.CFUNCTYPE(None)
deeper = kind(lambda: deeper())
import sys
sys.setrecursionlimit(10**9)
deeper()
"""
NEXT = "print('SERVED')"


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result = arena.module(assemble(module(BODY, before=BEFORE)))
    after = arena.run(NEXT)
    served = after.stdout_bytes == b"SERVED\n"
    return Effect(not served, "the next run was served" if served else "the next run was not served", result)


def control(arena: Arena) -> Effect:
    """Endless recursion of native code in the executor's own process."""
    bare = arena.outside.in_process(SAME, NEXT)
    served = b"SERVED" in bare.stdout_bytes
    return Effect(not served, "the next program was served" if served else "the executor died")


ATTACK = Attack(
    id="wasi.stack_overflow",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A module that overflows its stack ends its own run and nothing else."),
    tiers={"wasm": Expect(Layer.ENGINE, outcomes=("crashed",))},
    attack=attack,
    control=control,
)
