"""
Sends claims without end.
"""

from __future__ import annotations

from fastness.attack import channel
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect
from fastness.tier import Guarantee

CODE = """
claims = b'["open", "%s"]\\n' % (b'x' * 200) * 250
for _ in range(5000):
    send(frame(0x46, {'name': 'claims'}, claims))
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    return channel.attacked(arena, CODE)


def control(arena: Arena) -> Effect:
    """The same before a host that believes it."""
    return channel.believed(arena, channel.Harm.HOARDED, CODE)


ATTACK = Attack(
    id="channel.flood",
    claim=Claim(Guarantee.CRASH_CONTAINED, "What a guest claims is kept up to a cap."),
    tiers=channel.tiers("protocol", "timeout"),
    attack=attack,
    control=control,
)
