"""
Tries every way that JavaScript engines have to fetch a page or open a socket.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
const url = `http://127.0.0.1:${PORT}/`;
const tries = {
  fetch: () => fetch(url),
  xhr: () => { const r = new XMLHttpRequest(); r.open("GET", url, false); r.send(); },
  websocket: () => new WebSocket(url.replace("http", "ws")),
  urlGet: () => std.urlGet(url),
  dynamic: () => import(url),
  popen: () => std.popen(`curl ${url}`, "r").readAsString(),
  exec: () => os.exec(["curl", url]),
};
for (const [name, attempt] of Object.entries(tries)) {
  try { console.log(name, String(await attempt())); } catch (error) { console.log(name, String(error)); }
}
"""
#: An engine that has all of them, of a host that fetches whatever is asked for; but for imports, which no script makes.
_GRANTS = """
const ask = (what) => { console.log("ASKED", what); return ""; };
globalThis.fetch = ask;
globalThis.XMLHttpRequest = class { open(method, url) { ask(url); } send() {} };
globalThis.WebSocket = class { constructor(url) { ask(url); } };
globalThis.std = { urlGet: ask, popen: (command) => ({ readAsString: () => ask(command) }) };
globalThis.os = { exec: (words) => ask(words.join(" ")) };
"""
_WAYS = 6


def attack(arena: Arena) -> Effect:
    """In the tier."""
    door = arena.listen()
    return door.knocked(arena.run(arena.javascript(CODE, PORT=door.port), runtime="javascript"))


def control(arena: Arena) -> Effect:
    """The same program in such an engine; none of the machine's is needed for that."""
    door = arena.listen()
    result = arena.run(_GRANTS + arena.javascript(CODE, PORT=door.port), runtime="javascript")
    asked = [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("ASKED ")]
    url = f"http://127.0.0.1:{door.port}/"
    if len(asked) == _WAYS and url in asked:
        arena.outside.run(f"import urllib.request; urllib.request.urlopen({url!r}, timeout=3).read()")
    return Effect(door.reached(), "somebody knocked" if door.reached() else f"it asked for {asked}")


ATTACK = Attack(
    id="network.javascript",
    claim=Claim(Guarantee.NET_CONFINED, "JavaScript has no way to the network."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
