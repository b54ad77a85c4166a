"""
Leaves timers, promises and finalizers behind that would run with the next program.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
const registry = new FinalizationRegistry((held) => console.log(held));
(() => registry.register({}, TOKEN))();
globalThis.kept = registry;
globalThis.timer = setInterval(() => console.log(TOKEN), 1);
os.setTimeout(() => console.log(TOKEN), 1);
new Promise((resolve) => { globalThis.resolve = resolve; }).then(() => console.log(TOKEN));
"""
SECOND = """
globalThis.resolve?.();
std.gc();
await null;
await new Promise((resolve) => setTimeout(resolve, 20));
clearInterval(globalThis.timer);
"""


def attack(arena: Arena) -> Effect:
    """In the tier: the first run ends with all of it waiting, and the second waits."""
    arena.run(arena.javascript(FIRST + "std.exit(0);", TOKEN=arena.token), runtime="javascript")
    return arena.leaked(arena.run(SECOND, runtime="javascript"))


def control(arena: Arena) -> Effect:
    """Both in one run."""
    return arena.leaked(arena.run(arena.javascript(FIRST + SECOND, TOKEN=arena.token), runtime="javascript"))


ATTACK = Attack(
    id="javascript.left_waiting",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No timer, promise or finalizer of an earlier run is heard in a later one."),
    tiers={"wasm": Expect(Layer.FRESH)},
    attack=attack,
    control=control,
)
