"""
Calls itself without end.
"""

from __future__ import annotations

from fastness.attack import serving
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


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result = arena.module(assemble(module(BODY, before=BEFORE)))
    served = serving.served(arena)
    return Effect(not served, "the next run was served" if served else "the next run was not served", result)


def control(arena: Arena) -> Effect:
    """The same module where the executor is the runtime's own process."""
    bare = arena.outside.module(assemble(module(BODY, before=BEFORE)))
    ended = bool(bare.status) and b"call stack exhausted" in bare.stderr_bytes
    return Effect(ended, "the executor died" if ended else f"the executor ended with {bare.status}")


ATTACK = Attack(
    id="wasi.stack_overflow",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A module that overflows its stack ends its own run and nothing else."),
    tiers={"wasm": Expect(Layer.ENGINE, outcomes=("crashed",))},
    attack=attack,
    control=control,
)
