"""
Says by hand two URLs in one call, of which one reader takes the first and another the last.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.net import NetScope
from fastness.tier import Guarantee

CODE = """
for text in (
    '{"method": "GET", "url": "http://a.test/", "url": "%s"}',
    '{"method": "GET", "url": "%s", "url": "http://a.test/", "url": "%s"}',
):
    by_hand('net', 'request', text.replace('%s', INSIDE).encode())
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with one host granted."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    scope = NetScope(hosts=("a.test",), schemes=("http",), ports=(80, inside.port))
    with brokering.Broker(arena, net=brokering.net({"a.test": [["127.0.0.1"]]})) as broker:
        return inside.knocked(broker.run(CODE, scope, facts={"INSIDE": inside.url + "/"}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    names = {"a.test": [["127.0.0.1"]]}
    return inside.knocked(brokering.control(arena, CODE, INSIDE=inside.url + "/", HOSTS=["a.test"], NAMES=names))


ATTACK = Attack(
    id="broker.net_duplicate_names",
    claim=Claim(Guarantee.NET_CONFINED, "What was judged is what is done, whatever stands twice in a call."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "host", calls=("request",))),
    attack=attack,
    control=control,
)
