"""
Grows its memory to the most that 32 bits can name.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    (if (i32.ne (memory.grow (i32.const 65000)) (i32.const -1)) (then (call $say)))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.module(assemble(module(BODY))), "SURVIVED", "grew to 4 GiB")


def control(arena: Arena) -> Effect:
    """The same module in a runtime that grants everything and limits nothing."""
    return arena.said(arena.outside.module(assemble(module(BODY))), "SURVIVED", "grew to 4 GiB")


ATTACK = Attack(
    id="wasi.memory_grow",
    claim=Claim(Guarantee.MEM_CAP, "A module's memory does not grow past the limit."),
    tiers={"wasm": Expect(Layer.ABSENT, outcomes=("ok",))},
    attack=attack,
    control=control,
)
