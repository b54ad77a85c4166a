"""
Starts a program, a thread or a signal by every way that JavaScript engines have.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const command = `touch ${MARK_FILE}`;
const tries = {
  popen: () => std.popen(command, "r").readAsString(),
  exec: () => os.exec(command.split(" ")),
  child: () => require("child_process").execSync(command),
  node: () => require("node:child_process").execSync(command),
  imported: async () => (await import("child_process")).execSync(command),
  worker: () => new os.Worker(command),
  threads: () => new (require("worker_threads").Worker)(command),
};
for (const [name, attempt] of Object.entries(tries)) {
  try { console.log(name, String(await attempt())); } catch (error) { console.log(name, String(error)); }
}
"""
#: An engine that has them, of a host that starts whatever is asked for.
_GRANTS = """
const ask = (what) => { console.log("ASKED", what); return ""; };
globalThis.std = { popen: (what) => ({ readAsString: () => ask(what) }) };
globalThis.os = { exec: (words) => ask(words.join(" ")), Worker: class { constructor(what) { ask(what); } } };
globalThis.require = () => ({ execSync: ask, Worker: globalThis.os.Worker });
"""
_WAYS = 6


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.javascript(CODE), runtime="javascript"))


def control(arena: Arena) -> Effect:
    """The same program in such an engine; but for imports, which no script makes."""
    result = arena.run(_GRANTS + arena.javascript(CODE), runtime="javascript")
    if result.stdout.count(f"ASKED touch {arena.mark_file}\n") == _WAYS:
        arena.outside.run(f"open({str(arena.mark_file)!r}, 'w')")
    return arena.marked(result)


ATTACK = Attack(
    id="javascript.programs",
    claim=Claim(Guarantee.NO_EXEC, "JavaScript starts no program and no thread."),
    tiers={"wasm": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)
