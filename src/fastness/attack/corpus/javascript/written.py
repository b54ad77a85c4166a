"""
Makes a file of the machine by every function that JavaScript has for it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const fs = require("fs");
const tries = {
  open: () => { const file = std.open(PLACE, "w"); file.puts("x"); file.close(); },
  descriptor: () => os.open(PLACE, os.O_WRONLY | os.O_CREAT, 0o666),
  written: () => fs.writeFileSync(PLACE, "x"),
  appended: () => fs.appendFileSync(PLACE, "x"),
  moved: () => { fs.writeFileSync("here", "x"); fs.renameSync("here", PLACE); },
  folder: () => fs.mkdirSync(PLACE, { recursive: true }),
};
for (const [name, attempt] of Object.entries(tries)) {
  try { console.log(name, String(attempt())); } catch (error) { console.log(name, String(error)); }
}
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.javascript(CODE, PLACE=str(arena.mark_file)), runtime="javascript"))


def control(arena: Arena) -> Effect:
    """The same program, for a host that makes for real what the guest has made."""
    result = arena.run(arena.javascript(CODE, PLACE="/work/mark"), runtime="javascript")
    if "mark" in result.files:
        arena.outside.run(f"open({str(arena.mark_file)!r}, 'wb').write({result.files['mark'].read()!r})")
    return arena.marked(result)


ATTACK = Attack(
    id="javascript.written",
    claim=Claim(Guarantee.FS_CONFINED, "No module or function of JavaScript makes a file of this machine."),
    tiers={"wasm": Expect(Layer.WASI, "absent")},
    attack=attack,
    control=control,
)
