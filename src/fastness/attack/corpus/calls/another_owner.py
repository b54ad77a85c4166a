"""
Says that it is somebody else: in what is said about a call, and in its arguments.
"""

from __future__ import annotations

from fastness.attack import asking
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODES = (
    """
call(1, 'notes', 'read', owner='other', plugin='other', run='other')
print(answer())
""",
    """
call(1, 'notes', 'read', {'owner': 'other'})
print(answer())
call(2, 'notes', 'read', b'{"$":["dict","owner","other"]}')
print(answer())
""",
)


def attack(arena: Arena) -> Effect:
    """In the tier, on behalf of one owner."""
    results = [asking.ask(arena, code)[0] for code in CODES]
    found = [arena.leaked(result) for result in results]
    worst = next((effect for effect in found if effect.happened), found[0])
    return Effect(worst.happened, worst.seen, results[0], tuple(results[1:]))


def control(arena: Arena) -> Effect:
    """Before a host that believes what it is told."""
    return arena.leaked(asking.careless(arena, *CODES))


ATTACK = Attack(
    id="calls.another_owner",
    claim=Claim(Guarantee.ADDRESS_SPACE, "On whose behalf a call is made is the host's to say, never the guest's."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("ok", "guest_error", "protocol"))
    ),
    attack=attack,
    control=control,
)
