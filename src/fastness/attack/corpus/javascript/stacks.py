"""
Looks for paths of the machine in stacks and errors.
"""

from __future__ import annotations

import sys
from pathlib import Path

import fastness
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
const deep = (n) => deep(n + 1) + 1;
const tries = [
  () => null.x,
  () => deep(0),
  () => JSON.parse("{"),
  () => eval("("),
  () => require("no such module"),
  () => import("no such module"),
  () => std.loadScript("/nowhere"),
  () => new Promise((_, reject) => reject(new Error("late"))),
];
for (const attempt of tries) {
  try { await attempt(); } catch (error) { console.log(String(error), error.stack, error.fileName); }
}
console.log(new Error().stack, scriptArgs, os.getcwd());
throw new Error("at the end");
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE, runtime="javascript")
    told = _told(result)
    return Effect(bool(told), f"it told {told[0]}" if told else "no path of this machine was told", result)


def control(arena: Arena) -> Effect:
    """The same program under a name that is a path of this machine."""
    result = arena.run(CODE, runtime="javascript", args=[str(_HOME)])
    told = _told(result)
    return Effect(bool(told), f"it told {told[0]}" if told else "no path of this machine was told")


_HOME = Path(fastness.__file__).parent


def _told(result: RunResult) -> list[str]:
    output = result.stdout + result.stderr + result.outcome.detail
    return [path for path in sorted({sys.prefix, str(_HOME)}) if len(path) > len("/usr") and path in output]


ATTACK = Attack(
    id="javascript.stacks",
    claim=Claim(Guarantee.ENV_SCRUBBED, "No stack or error of JavaScript names a path of this machine."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
