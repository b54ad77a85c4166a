"""
Gives back values that break JSON: not a number, lone surrogates, huge integers, deep nesting.
"""

from __future__ import annotations

import json

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

VALUES = (
    "[float('nan'), float('inf')]",
    "['\\ud800', {'\\udfff': '\\x00'}]",
    "10**5000",
    "[2**53 + 1, b'\\xff']",
    "{'a': {1, 2}, 'b': object(), 'c': lambda: 1}",
    "__import__('functools').reduce(lambda inner, _: [inner], range(5000), [])",
)
#: What most executors do with a value; where they fail over it, nothing comes out.
_NAIVE = """
import json, sys

for value in map(eval, VALUES):
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = ''
    sys.stdout.buffer.write(text.encode('utf-8', 'surrogatepass') + b'\\n')
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
    """The same values in a host that encodes them as they are: each breaks it."""
    lines = arena.outside.run(f"VALUES = {VALUES!r}\n{_NAIVE}").stdout_bytes.splitlines()
    broken = sum(1 for line in lines if not _valid(line))
    return Effect(broken == len(VALUES), f"{broken} of {len(VALUES)} did not come out as valid JSON")


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
        "container": Expect(Layer.HOST),
        "isolated": Expect(Layer.HOST),
    },
    attack=attack,
    control=control,
)
