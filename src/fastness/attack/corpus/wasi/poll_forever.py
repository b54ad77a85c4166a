"""
Waits for a clock that is years away: the host itself must not wait for it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    ;; one subscription: a relative clock, 3 s in nanoseconds
    (i32.store8 (i32.const 1032) (i32.const 0))
    (i32.store (i32.const 1040) (i32.const 1))
    (i64.store (i32.const 1048) (i64.const 3000000000))
    (drop (call $poll_oneoff (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 16)))
    (call $say)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(
        arena.module(assemble(module(BODY, "poll_oneoff")), timeout=0.5), "SURVIVED", "waited through its limit"
    )


def control(arena: Arena) -> Effect:
    """The same module in a runtime that grants everything and limits nothing."""
    return arena.said(
        arena.outside.module(assemble(module(BODY, "poll_oneoff"))), "SURVIVED", "waited through its limit"
    )


ATTACK = Attack(
    id="wasi.poll_forever",
    claim=Claim(Guarantee.WALL_KILL, "A call that waits ends at the time limit."),
    tiers={"wasm": Expect(Layer.LIMIT, outcomes=("timeout",))},
    attack=attack,
    control=control,
    slow=True,
)
