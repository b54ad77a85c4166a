"""
Never comes back from being imported.
"""

from __future__ import annotations

from fastness.attack import lives
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
while True:
    pass
"""


def attack(arena: Arena) -> Effect:
    """In the tier, as the first of two plugins."""
    with lives.life(arena, CODE) as life:
        life.start()
        return Effect(not life.went_on, f"its host has started the other after {life.took:.1f} s", life.result)


def control(arena: Arena) -> Effect:
    """In a host that runs it as it is."""
    bare = lives.careless(arena, CODE)
    went_on = b"WENT ON" in bare.stdout_bytes
    return Effect(not went_on, f"its host {'went on' if went_on else 'did not go on'} (status {bare.status})")


ATTACK = Attack(
    id="lifecycle.import_spins",
    claim=Claim(Guarantee.WALL_KILL, "A plugin whose import never ends stalls no host."),
    tiers=dict.fromkeys(lives.TIERS, Expect(Layer.LIMIT, outcomes=("timeout",))),
    attack=attack,
    control=control,
    slow=True,
)
