"""
Asks a public server that redirects to a second, which redirects inside.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
for url in URLS:
    attempt(ctx.net.request, method='GET', url=url)
"""


def _say(head: bytes, port: int) -> bytes:
    where = f"http://{servers.INSIDE}:{port}/" if b"/second" in head else f"http://b.test:{port}/second"
    return servers.moved(where)


def attack(arena: Arena) -> Effect:
    """In the tier, with every host granted and two of them public."""
    public, inside = servers.pair(arena, _say, servers.answer(arena.token.encode()))
    names = {"a.test": [["127.0.0.1"]], "b.test": [["127.0.0.1"]]}
    allowed = [(name, "127.0.0.1", public.port) for name in names]
    with brokering.Broker(arena, net=brokering.net(names, *allowed)) as broker:
        urls = [f"http://a.test:{public.port}/"]
        return inside.knocked(broker.run(CODE, brokering.everywhere(public.port), facts={"URLS": urls}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    public, inside = servers.pair(arena, _say, servers.answer(arena.token.encode()))
    names = {"a.test": [["127.0.0.1"]], "b.test": [["127.0.0.1"]]}
    return inside.knocked(brokering.control(arena, CODE, URLS=[f"http://a.test:{public.port}/"], NAMES=names))


ATTACK = Attack(
    id="broker.net_redirected_inside",
    claim=Claim(Guarantee.NET_CONFINED, "Each hop of a chain of redirects is judged by its address."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "address", calls=("request",))),
    attack=attack,
    control=control,
)
