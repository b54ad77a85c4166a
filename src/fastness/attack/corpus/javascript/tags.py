"""
Gives back plain data that looks like the wire's own marks, and objects that answer for themselves.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.runs import RunResult
from fastness.tier import Guarantee
from fastness.wire import values

CODE = """
const proxy = new Proxy({}, {
  ownKeys: () => ["$"],
  getOwnPropertyDescriptor: () => ({ value: ["bytes", "TUFERQ=="], enumerable: true, configurable: true }),
  get: () => ["bytes", "TUFERQ=="],
});
({ bytes: { $: ["bytes", "TUFERQ=="] }, number: JSON.parse('{"$": ["int", "ff"]}'), proxy })
"""
#: Writes down what a program comes to, as it is.
_WRITES = "console.log(JSON.stringify(eval(CODE)) ?? null)"


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE, runtime="javascript")
    return _made(result.value, result)


def control(arena: Arena) -> Effect:
    """Before a host that reads what a program writes as if the guest's own writer had written it."""
    written = arena.run(arena.javascript(_WRITES, CODE=CODE), runtime="javascript")
    return _made(values.decode(written.stdout_bytes), None)


def _made(value: object, result: RunResult | None) -> Effect:
    fields = value if isinstance(value, dict) else {}
    made = [name for name, one in fields.items() if isinstance(one, (bytes, int))]
    return Effect(bool(made), f"{made or 'nothing'} was made of what came back", result)


ATTACK = Attack(
    id="javascript.tags",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Plain data that looks like marks of the wire comes back as plain data."),
    tiers={"wasm": Expect(Layer.HOST)},
    attack=attack,
    control=control,
)
