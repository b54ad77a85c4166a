"""
Says that four gigabytes follow, and sends none of them.
"""

from __future__ import annotations

from fastness.attack import channel
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect
from fastness.tier import Guarantee

CODE = """
import time

send(frame(0x48, b'', head_size=2**32 - 1, blob_size=2**32 - 1))
time.sleep(5)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    return channel.attacked(arena, CODE)


def control(arena: Arena) -> Effect:
    """The same before a host that believes it."""
    return channel.believed(arena, channel.Harm.RESERVED, CODE)


ATTACK = Attack(
    id="channel.giant_length",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A length that a guest names makes the host reserve nothing."),
    tiers=channel.tiers("protocol"),
    attack=attack,
    control=control,
)
