"""
Sends keys and values that are no proper text or number: lone surrogates, numbers without end, NaN, depth.
"""

from __future__ import annotations

from fastness.attack import brokering, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.storage import StorageScope
from fastness.errors import GuestProtocolError
from fastness.tier import Guarantee
from fastness.wire import values

CODE = """
def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value

odd = [float('nan'), float('inf'), 10 ** 400, '\\ud800', nested(1000), {'\\udfff': 1}]
for number, value in enumerate(odd):
    try:
        ctx.storage.put(key=f'k{number}', value=value)
        found = ctx.storage.get(key=f'k{number}')
        text = json.dumps(found, allow_nan=False)
        text.encode()
        if found != found or (number == 2 and found != value) or '\\\\ud' in text:
            print('BROKEN', number, flush=True)
    except Exception as error:
        print('refused' if hasattr(error, 'code') or isinstance(error, TypeError) else 'BROKEN', number, flush=True)
for text in (
    b'{"key": "a", "value": ' + b'[' * 100000 + b']' * 100000 + b'}',
    b'{"key": "a", "value": NaN}',
    b'{"key": "a", "value": 1e999}',
    b'{"key": "a", "value": "' + bytes([0x5c]) + b'ud800"}',
    b'{"key": "a", "value": {"$": ["int", "9' + b'9' * 100000 + b'"]}}',
    b'{"key": "a", "key": "b", "value": 1}',
    b'{"key": "a\\xff", "value": 1}',
):
    try:
        by_hand('storage', 'put', text)
    except Exception as error:
        print('refused', flush=True)
"""


def _sound(value: bytes) -> bool:
    """Whether a stored value is what the wire can carry."""
    try:
        values.decode(value, 1 << 24)
    except GuestProtocolError:
        return False
    return True


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, StorageScope(quota=1 << 20))
        # Read back with nothing of the guest's in the way.
        odd = [key for key, value in broker.kept().items() if "\x00" in key or not _sound(value)]
        served = serving.served(arena)
        return Effect(bool(odd) or not served, f"kept and not to be read: {odd}; next run served: {served}", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = brokering.control(arena, CODE, DATABASE=str(arena.folder / "careless.db"))
    # What it kept is no JSON (RFC 8259) to anybody else, or brought the reader down.
    broken = brokering.times(bare, "BROKEN")
    return Effect(broken > 3, f"{broken} values were not to be read")


ATTACK = Attack(
    id="broker.storage_odd_data",
    claim=Claim(
        Guarantee.CRASH_CONTAINED, "Odd keys, numbers and depth are refused, or kept so that they can be read."
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("ok", "guest_error"))),
    attack=attack,
    control=control,
)
