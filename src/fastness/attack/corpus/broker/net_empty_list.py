"""
Asks where the list of hosts that were granted is empty.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.net import NetScope
from fastness.tier import Guarantee

CODE = """
attempt(ctx.net.request, method='GET', url=URL)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with no host granted."""
    server = servers.serve(arena, servers.answer(arena.token.encode()))
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port))
    scope = NetScope(hosts=(), schemes=("http",), ports=(server.port,))
    with brokering.Broker(arena, net=adapter) as broker:
        return server.knocked(broker.run(CODE, scope, facts={"URL": f"http://a.test:{server.port}/"}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(arena.token.encode()))
    names = {"a.test": [["127.0.0.1"]]}
    return server.knocked(brokering.control(arena, CODE, URL=f"http://a.test:{server.port}/", NAMES=names, HOSTS=[]))


ATTACK = Attack(
    id="broker.net_empty_list",
    claim=Claim(Guarantee.NET_CONFINED, "An empty list of hosts allows none."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "host", calls=("request",))),
    attack=attack,
    control=control,
)
