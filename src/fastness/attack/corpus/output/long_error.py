"""
Fails with a text of many megabytes, in its message and in its name.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.limits import Limits
from fastness.tier import Guarantee

CODE = """
raise type('E' * (4 << 20), (Exception,), {})('x' * (8 << 20))
"""
#: An executor that keeps what went wrong as it is.
_KEEPS = """
try:
    exec(CODE)
except Exception as error:
    kept = f'{type(error).__name__}: {error}'
    print('KEPT' if len(kept) > 1 << 16 else len(kept))
"""
_MUCH = 1 << 16


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE, limits=Limits(output_bytes=1000))
    size = len(result.outcome.detail)
    return Effect(size > _MUCH or len(result.to_json()) > 4 * _MUCH, f"{size} characters of it were kept", result)


def control(arena: Arena) -> Effect:
    """The same program in an executor without a cap."""
    return arena.said(arena.outside.run(arena.python(_KEEPS, CODE=CODE)), "KEPT", "was kept whole")


ATTACK = Attack(
    id="output.long_error",
    claim=Claim(Guarantee.OUTPUT_CAP, "Of the text of an error no more is kept than its cap."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "container", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
