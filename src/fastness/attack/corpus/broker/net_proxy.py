"""
Is run where the environment names a proxy.
"""

from __future__ import annotations

import os

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

VARIABLES = ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")

CODE = """
attempt(ctx.net.request, method='GET', url=URL)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    proxy = servers.serve(arena, servers.answer(arena.token.encode()))
    server = servers.serve(arena, servers.answer(b"said"))
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port))
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, proxy.url))
    try:
        with brokering.Broker(arena, net=adapter) as broker:
            facts = {"URL": f"http://a.test:{server.port}/"}
            result = broker.run(CODE, brokering.everywhere(server.port), facts=facts)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return proxy.knocked(result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    proxy = servers.serve(arena, servers.answer(arena.token.encode()))
    arena.outside.env.update(dict.fromkeys(VARIABLES, proxy.url))
    return proxy.knocked(brokering.control(arena, CODE, URL="http://a.test/", NAMES={"a.test": [["127.0.0.1"]]}))


ATTACK = Attack(
    id="broker.net_proxy",
    claim=Claim(Guarantee.NET_CONFINED, "Requests go by no proxy that the environment names."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
