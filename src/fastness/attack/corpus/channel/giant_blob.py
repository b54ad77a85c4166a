"""
Sends an answer of a hundred megabytes.
"""

from __future__ import annotations

from fastness.attack import channel
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect
from fastness.tier import Guarantee

CODE = """
size = 100 << 20
head = {'id': 1, 'ending': 'returned', 'payload_len': size, 'session_state': 'none'}
send(frame(0x48, head, b'x' * (1 << 20), blob_size=size))
for _ in range(99):
    send(b'x' * (1 << 20))
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    return channel.attacked(arena, CODE)


def control(arena: Arena) -> Effect:
    """The same before a host that believes it."""
    return channel.believed(arena, channel.Harm.COLLECTED, CODE)


ATTACK = Attack(
    id="channel.giant_blob",
    claim=Claim(Guarantee.CRASH_CONTAINED, "An answer past its cap ends the run."),
    tiers=channel.tiers("protocol"),
    attack=attack,
    control=control,
)
