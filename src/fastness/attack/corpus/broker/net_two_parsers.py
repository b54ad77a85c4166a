"""
Writes a URL that one reader takes to be of a host that was granted, and another of one inside.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.net import NetScope
from fastness.tier import Guarantee

URLS = (
    "http://a.test\\@127.0.0.2:{port}/",
    "http://a.test:80\\@127.0.0.2:{port}/",
    "http://a.test\\@[::ffff:127.0.0.2]:{port}/",
)

CODE = """
for url in URLS:
    attempt(ctx.net.request, method='GET', url=url)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with one host granted."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    scope = NetScope(hosts=("a.test",), schemes=("http",), ports=(80, inside.port))
    urls = [url.format(port=inside.port) for url in URLS]
    with brokering.Broker(arena, net=brokering.net({"a.test": [["127.0.0.1"]]})) as broker:
        return inside.knocked(broker.run(CODE, scope, facts={"URLS": urls}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    urls = [url.format(port=inside.port) for url in URLS]
    bare = brokering.control(arena, CODE, URLS=urls, NAMES={"a.test": [["127.0.0.1"]]}, HOSTS=["a.test"])
    return brokering.every(arena, bare, len(URLS))


ATTACK = Attack(
    id="broker.net_two_parsers",
    claim=Claim(Guarantee.NET_CONFINED, "A URL that readers differ about is refused."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "host", calls=("request",))),
    attack=attack,
    control=control,
)
