"""
Sends the messages of a guest that starts or ends, those that only a host sends, and those that there are none of.
"""

from __future__ import annotations

from fastness.attack import channel
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect
from fastness.tier import Guarantee

CODE = """
send(frame(KIND, HEAD))
import time
time.sleep(5)
"""
_MESSAGES = {
    0x41: {"protocol": 1, "guest": "python"},
    0x42: {},
    0x45: {"level": "info", "text": ""},
    0x4A: {},
    0x01: {"runtime": "python"},
    0x02: {"id": 1, "op": "run"},
    0x03: {"id": 1},
    0x00: {},
    0x7F: {},
    0xFF: {},
}


def attack(arena: Arena) -> Effect:
    """In the tier, once for each of them; another run follows each."""
    return channel.attacked(arena, *_codes())


def control(arena: Arena) -> Effect:
    """The same before a host that believes it."""
    return channel.believed(arena, channel.Harm.OBEYED, *_codes())


def _codes() -> list[str]:
    return [f"KIND, HEAD = {kind}, {head}\n{CODE}" for kind, head in _MESSAGES.items()]


ATTACK = Attack(
    id="channel.wrong_order",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A message out of order ends the run."),
    tiers=channel.tiers("protocol"),
    attack=attack,
    control=control,
)
