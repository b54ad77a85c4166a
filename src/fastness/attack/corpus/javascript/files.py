"""
Reads a file of the machine by every module and function that JavaScript has for it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const tries = {
  loadFile: () => std.loadFile(PLACE),
  open: () => std.open(PLACE, "r").readAsString(),
  descriptor: () => {
    const bytes = new Uint8Array(100);
    os.read(os.open(PLACE, os.O_RDONLY), bytes.buffer, 0, 100);
    return String.fromCharCode(...bytes);
  },
  require: () => require("fs").readFileSync(PLACE, "utf8"),
  promises: () => require("fs/promises").readFile(PLACE, "utf8"),
  copied: () => { require("fs").copyFileSync(PLACE, "copy"); return std.loadFile("copy"); },
  parents: () => std.loadFile("../".repeat(20) + PLACE),
  script: () => std.loadScript(PLACE),
  module: () => import(PLACE),
  required: () => require(PLACE),
};
for (const [name, attempt] of Object.entries(tries)) {
  try { console.log(name, String(await attempt())); } catch (error) { console.log(name, String(error)); }
}
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.run(arena.javascript(CODE, PLACE=str(arena.secret_file)), runtime="javascript"))


def control(arena: Arena) -> Effect:
    """The same program, on a file that was staged for it."""
    code = arena.javascript(CODE, PLACE="/work/given.txt")
    return arena.leaked(arena.run(code, runtime="javascript", files={"given.txt": arena.token}))


ATTACK = Attack(
    id="javascript.files",
    claim=Claim(Guarantee.FS_CONFINED, "No module or function of JavaScript reads a file of this machine."),
    tiers={"wasm": Expect(Layer.WASI, "absent")},
    attack=attack,
    control=control,
)
