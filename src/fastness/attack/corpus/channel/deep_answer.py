"""
Sends an answer that is nested deeper than a parser can follow: in what is said about it, and in itself.
"""

from __future__ import annotations

from fastness.attack import channel
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect
from fastness.tier import Guarantee

CODES = (
    """
send(frame(0x48, b'[' * 30000 + b']' * 30000))
""",
    """
answer = b'{"kind":"ok","value":' + b'[' * 100000 + b']' * 100000 + b'}'
head = {'id': 1, 'ending': 'returned', 'payload_len': len(answer), 'session_state': 'none'}
send(frame(0x48, head, answer))
""",
)


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows each."""
    return channel.attacked(arena, *CODES)


def control(arena: Arena) -> Effect:
    """The same before a host that believes it."""
    return channel.believed(arena, channel.Harm.FELL, *CODES)


ATTACK = Attack(
    id="channel.deep_answer",
    claim=Claim(Guarantee.CRASH_CONTAINED, "An answer cannot be too deep for the host."),
    tiers=channel.tiers("protocol"),
    attack=attack,
    control=control,
)
