"""
Was granted programs in a tier that is not to be had: its engine is named, and nobody listens there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.process import ProcessScope

VARIABLE = "FASTNESS_ENGINE"
CODE = """
attempt(ctx.process.run, argv=['touch', MARK_FILE])
attempt(ctx.process.run, argv=['sh', '-c', 'echo RAN'])
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with programs granted."""
    with _without_an_engine(arena), brokering.programs(arena) as broker:
        result = broker.run(CODE, ProcessScope(runs=9, seconds=3.0, tier="container"))
        effect = arena.marked(result)
        ran = brokering.times(result, "RAN")
        return Effect(effect.happened or ran > 0, f"{effect.seen}; {ran} programs ran", result)


@contextlib.contextmanager
def _without_an_engine(arena: Arena) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = f"unix://{arena.folder}/engine"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE)
    effect = arena.marked(bare)
    ran = brokering.times(bare, "RAN")
    return Effect(effect.happened and ran > 0, f"{effect.seen}; {ran} programs ran")


ATTACK = Attack(
    id="broker.process_elsewhere",
    claim=Claim(Rule.GRANTED, "A program runs in the tier that was granted, and without that one nowhere."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
