"""
Gives back values that break JSON: not a number, lone surrogates, huge integers, deep nesting.
"""

from __future__ import annotations

import json

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

VALUES = (
    "[float('nan'), float('inf'), 10**5000, 2**53 + 1, b'\\xff', '\\ud800', {'\\udfff': '\\x00'}]",
    "eval('[' * 60 + ']' * 60)",
    "{'a': {1, 2}, 'b': object(), 'c': lambda: 1}",
)
#: What most executors do with a value.
NAIVE = """
import json

print(json.dumps([float('nan'), '\\ud800'], ensure_ascii=False))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    broken = []
    for value in VALUES:
        result = arena.run(value)
        if not _valid(result.to_json().encode("utf-8", "surrogatepass")):
            broken.append(value)
    return Effect(bool(broken), f"broken by {broken[0]}" if broken else "every result was valid JSON")


def control(arena: Arena) -> Effect:
    """A host that encodes values as they are."""
    bare = arena.outside.run(NAIVE)
    valid = bool(bare.stdout_bytes) and _valid(bare.stdout_bytes)
    return Effect(not valid, "valid JSON" if valid else "what comes out is not valid JSON")


def _valid(text: bytes) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


ATTACK = Attack(
    id="output.json",
    claim=Claim(Guarantee.OUTPUT_CAP, "Whatever a guest gives back, the JSON of a result is valid."),
    tiers={
        "wasm": Expect(Layer.HOST),
        "worker": Expect(Layer.HOST),
        "confined": Expect(Layer.HOST),
        "isolated": Expect(Layer.HOST),
    },
    attack=attack,
    control=control,
)
