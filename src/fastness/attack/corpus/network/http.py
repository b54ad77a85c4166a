"""
Fetches a page with the standard library.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
import urllib.request

print(urllib.request.urlopen(f'http://127.0.0.1:{PORT}/', timeout=3).read())
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    door = arena.listen()
    return door.knocked(arena.run(arena.python(CODE, PORT=door.port)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    door = arena.listen()
    return door.knocked(arena.outside.run(arena.python(CODE, PORT=door.port)))


ATTACK = Attack(
    id="network.http",
    claim=Claim(Guarantee.NET_CONFINED, "No page can be fetched."),
    tiers={
        "wasm": Expect(Layer.ABSENT),
        "confined": refused("socket"),
        "container": Expect(Layer.NAMESPACE),
        "isolated": refused("socket"),
    },
    attack=attack,
    control=control,
)
