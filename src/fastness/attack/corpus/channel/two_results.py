"""
Sends several results, all but one of them for runs that have not begun.
"""

from __future__ import annotations

from fastness.attack import channel
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect
from fastness.tier import Guarantee

CODE = """
for number in NUMBERS:
    answer = json.dumps({'kind': 'ok', 'value': 'MINE' if number == 1 else 'FORGED-OTHER'}).encode()
    head = {'id': number, 'ending': 'returned', 'payload_len': len(answer), 'session_state': 'none'}
    send(frame(0x48, head, answer))
"""
#: The first one of a row is the one that is looked at.
_ROWS = ((1, 2, 3, 0, -1, 2**31), (2, 1), (3, 1), (0, 1), (-1, 1), (2**31, 1))


def attack(arena: Arena) -> Effect:
    """In the tier, once for each row; another run follows each."""
    return channel.attacked(arena, *_codes())


def control(arena: Arena) -> Effect:
    """The same before a host that believes it."""
    return channel.believed(arena, channel.Harm.FILED, *_codes())


def _codes() -> list[str]:
    return [f"NUMBERS = {numbers}\n{CODE}" for numbers in _ROWS]


ATTACK = Attack(
    id="channel.two_results",
    claim=Claim(Guarantee.CRASH_CONTAINED, "One run's answer is never another's."),
    tiers=channel.tiers("protocol", "ok"),
    attack=attack,
    control=control,
)
