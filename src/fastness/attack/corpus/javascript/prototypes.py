"""
Leaves a secret in prototypes, constructors, globals and modules that the next program shares.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
Object.prototype.leaked = TOKEN;
Array.prototype.map = () => TOKEN;
Function.prototype.call = () => TOKEN;
Promise.prototype.then = () => TOKEN;
JSON.stringify = () => TOKEN;
String.prototype.toString = () => TOKEN;
globalThis.leaked = TOKEN;
require("fs").leaked = TOKEN;
std.leaked = os.leaked = console.leaked = TOKEN;
"""
SECOND = """
const places = [globalThis, {}, [], () => 0, std, os, console, require("fs"), JSON, Reflect, Math];
console.log(...places.map((place) => `${place.leaked}`), `${[1].map(String)}`, `${JSON.stringify(1)}`);
"""


def attack(arena: Arena) -> Effect:
    """In the tier: the first run leaves something, the second looks for it."""
    arena.run(arena.javascript(FIRST, TOKEN=arena.token), runtime="javascript")
    return arena.leaked(arena.run(SECOND, runtime="javascript"))


def control(arena: Arena) -> Effect:
    """Both in one run."""
    return arena.leaked(arena.run(arena.javascript(FIRST + SECOND, TOKEN=arena.token), runtime="javascript"))


ATTACK = Attack(
    id="javascript.prototypes",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Prototypes, globals and modules of JavaScript are whole for every run."),
    tiers={"wasm": Expect(Layer.FRESH)},
    attack=attack,
    control=control,
)
