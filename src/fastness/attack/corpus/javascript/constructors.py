"""
Climbs by constructors, stacks and callbacks to objects of whoever runs it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const up = [
  () => globalThis.constructor.constructor("return process")(),
  () => console.log.constructor("return process")(),
  () => std.loadFile.constructor("return process")(),
  () => (async () => {}).constructor("return process")(),
  () => { try { null.x; } catch (error) { return error.constructor.constructor("return process")(); } },
  () => new Proxy({}, { get: (target, name, receiver) => receiver }).constructor.constructor("return process")(),
  () => Reflect.construct(Function, ["return process"])(),
  () => {
    Error.prepareStackTrace = (error, frames) => frames;
    return new Error().stack[0].getThis().process;
  },
];
for (const climb of up) {
  try {
    const found = await climb();
    console.log(found.mainModule.require("child_process").execSync(`touch ${MARK_FILE}`));
  } catch (error) { console.log(String(error)); }
}
"""
#: What an interpreter in the realm of its host finds at the top.
_GRANTS = """
const ask = (what) => { console.log("ASKED", what); return ""; };
globalThis.process = { mainModule: { require: () => ({ execSync: ask }) } };
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(_code(arena), runtime="javascript"))


def control(arena: Arena) -> Effect:
    """The same program in a realm that has its host's objects, for a host that does what is asked."""
    result = arena.run(_GRANTS + _code(arena), runtime="javascript")
    if f"ASKED touch {arena.mark_file}\n" in result.stdout:
        arena.outside.run(f"open({str(arena.mark_file)!r}, 'w')")
    return arena.marked(result)


def _code(arena: Arena) -> str:
    return arena.javascript(CODE)


ATTACK = Attack(
    id="javascript.constructors",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No constructor, stack or proxy leads to an object of the host's."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
