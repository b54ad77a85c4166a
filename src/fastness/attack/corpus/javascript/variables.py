"""
Reads the environment, the arguments and whatever else names where it runs.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
console.log(JSON.stringify(std.getenviron()), std.getenv(VARIABLE), scriptArgs, os.getcwd());
console.log(globalThis.process?.env, globalThis.Deno?.env, globalThis.execArgv, globalThis.argv0);
for (const name of ["/proc/self/environ", "/proc/1/environ", "/proc/self/cmdline"]) console.log(std.loadFile(name));
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.javascript(CODE), runtime="javascript"))


def control(arena: Arena) -> Effect:
    """The same program, where it was passed."""
    return arena.leaked(arena.run(arena.javascript(CODE), runtime="javascript", env={"GIVEN": arena.token}))


ATTACK = Attack(
    id="javascript.variables",
    claim=Claim(Guarantee.ENV_SCRUBBED, "JavaScript sees only the variables and arguments that were passed."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
