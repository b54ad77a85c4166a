"""
Uses the number of a call again, while it is under way and once it is answered, to have one answer taken for another.
"""

from __future__ import annotations

from fastness.attack import asking
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODES = (
    """
for _ in range(2):
    call(7, 'notes', 'large', {'size': 1})
if answer() and answer():
    print('TWICE', flush=True)
""",
    """
for id in (7, 6, 7):
    call(id, 'notes', 'large', {'size': 1})
    got = answer()
if got:
    print('TWICE', flush=True)
""",
)


def attack(arena: Arena) -> Effect:
    """In the tier."""
    results = [asking.ask(arena, code, timeout=2)[0] for code in CODES]
    found = [arena.said(result, "TWICE", "had two answers to one number") for result in results]
    worst = next((effect for effect in found if effect.happened), found[0])
    return Effect(worst.happened, worst.seen, results[0], tuple(results[1:]))


def control(arena: Arena) -> Effect:
    """Before a host that answers whatever number it is told."""
    return arena.said(asking.careless(arena, *CODES), "TWICE", "had two answers to one number")


ATTACK = Attack(
    id="calls.numbers_again",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No number of a call is used twice; a guest that does is ended."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("protocol",))),
    attack=attack,
    control=control,
)
