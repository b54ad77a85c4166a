"""
Asks hosts whose names only look like one that was granted.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.net import NetScope
from fastness.tier import Guarantee

NAMES = ("xa.test", "a.test.evil.example", "evil.example", "b.test", "xb.test", "x.b.test.evil.example")
HOSTS = (
    "xa.test",
    "a.test.evil.example",
    "a.test@evil.example",
    "b.test",
    "xb.test",
    "x.b.test.evil.example",
)

CODE = """
for url in URLS:
    attempt(ctx.net.request, method='GET', url=url)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where all of them are public and two patterns are granted."""
    server = servers.serve(arena, servers.answer(b"said"))
    names = {name: [["127.0.0.1"]] for name in NAMES}
    adapter = brokering.net(names, *((name, "127.0.0.1", server.port) for name in NAMES))
    scope = NetScope(hosts=("a.test", "*.b.test"), schemes=("http",), ports=(server.port,))
    urls = [f"http://{host}:{server.port}/" for host in HOSTS]
    with brokering.Broker(arena, net=adapter) as broker:
        return server.knocked(broker.run(CODE, scope, facts={"URLS": urls}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(b"said"))
    names = {name: [["127.0.0.1"]] for name in NAMES}
    urls = [f"http://{host}:{server.port}/" for host in HOSTS]
    brokering.control(arena, CODE, URLS=urls, NAMES=names, HOSTS=["a.test", "b.test"])
    return Effect(len(server.heads) == len(HOSTS), f"{len(server.heads)} of {len(HOSTS)} were asked")


ATTACK = Attack(
    id="broker.net_other_hosts",
    claim=Claim(
        Guarantee.NET_CONFINED,
        "A host is granted by its whole name or by a pattern of whole labels, and by nothing that looks like it.",
    ),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "host", calls=("request",))),
    attack=attack,
    control=control,
)
