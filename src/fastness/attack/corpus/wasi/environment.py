"""
Asks for environment variables by the system interface's own call.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    (drop (call $environ_sizes_get (i32.const 1024) (i32.const 1028)))
    (drop (call $environ_get (i32.const 4096) (i32.const 16384)))
    (i32.store (i32.const 1032) (i32.const 16384))
    (i32.store (i32.const 1036) (i32.load (i32.const 1028)))
    (drop (call $fd_write (i32.const 1) (i32.const 1032) (i32.const 1) (i32.const 1040)))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    wat = module(BODY, "environ_get", "environ_sizes_get")
    return arena.leaked(arena.module(assemble(wat)))


def control(arena: Arena) -> Effect:
    """The same module in a runtime that grants everything."""
    wat = module(BODY, "environ_get", "environ_sizes_get")
    return arena.leaked(arena.outside.module(assemble(wat)))


ATTACK = Attack(
    id="wasi.environment",
    claim=Claim(Guarantee.ENV_SCRUBBED, "A module sees only the variables that were passed."),
    tiers={"wasm": Expect(Layer.ABSENT, outcomes=("ok",))},
    attack=attack,
    control=control,
)
