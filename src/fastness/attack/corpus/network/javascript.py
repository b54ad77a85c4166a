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
SAME = """
import urllib.request

print(urllib.request.urlopen(f'http://127.0.0.1:{PORT}/', timeout=3).read())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    door = arena.listen()
    result = arena.run(arena.javascript(CODE, PORT=door.port), runtime="javascript")
    return Effect(door.reached(), "somebody knocked" if door.reached() else "nobody knocked", result)


def control(arena: Arena) -> Effect:
    """The same attempt where nothing stops it; no JavaScript engine is needed on the machine for that."""
    door = arena.listen()
    arena.outside.run(arena.python(SAME, PORT=door.port))
    return Effect(door.reached(), "somebody knocked" if door.reached() else "nobody knocked")


ATTACK = Attack(
    id="network.javascript",
    claim=Claim(Guarantee.NET_CONFINED, "JavaScript has no way to the network."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
