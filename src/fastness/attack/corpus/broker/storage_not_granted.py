"""
Asks by hand to keep something, in each spelling of a capability that it was not granted.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.fs import FsScope

CODE = """
by_hand('storage', 'put', b'{"key": "a", "value": 1}')
for capability, operation in (('Storage', 'put'), ('fs', 'put'), ('storage', 'put ')):
    try:
        by_hand(capability, operation, b'{"key": "a", "value": 1}')
    except Exception as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a folder to read and nothing else."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, FsScope(read=True))
        kept = (broker.folder / "storage.db").exists() and broker.kept()
        return Effect(bool(kept), "it was kept" if kept else "nothing was kept", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    base = arena.folder / "careless.db"
    brokering.control(arena, CODE, DATABASE=str(base))
    return Effect(base.exists(), "it was kept" if base.exists() else "nothing was kept")


ATTACK = Attack(
    id="broker.storage_not_granted",
    claim=Claim(Rule.GRANTED, "What was not granted is refused to whoever writes the call by hand."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "not_granted", calls=("put",))
    ),
    attack=attack,
    control=control,
)
