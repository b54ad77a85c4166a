"""
Asks a name that has a public address and one inside.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

ANSWERS = [["127.0.0.1", servers.INSIDE]]

CODE = """
for url in URLS:
    attempt(ctx.net.request, method='GET', url=url)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a resolver that gives both."""
    public, inside = servers.pair(
        arena, lambda _head, _port: servers.answer(b"public"), servers.answer(arena.token.encode())
    )
    adapter = brokering.net({"a.test": ANSWERS}, ("a.test", "127.0.0.1", public.port))
    with brokering.Broker(arena, net=adapter) as broker:
        urls = [f"http://a.test:{public.port}/"]
        return inside.knocked(broker.run(CODE, brokering.everywhere(public.port), facts={"URLS": urls}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    public, inside = servers.pair(
        arena, lambda _head, _port: servers.answer(b"public"), servers.answer(arena.token.encode())
    )
    urls = [f"http://a.test:{public.port}/"]
    return inside.knocked(brokering.control(arena, CODE, URLS=urls, NAMES={"a.test": ANSWERS}))


ATTACK = Attack(
    id="broker.net_mixed_answers",
    claim=Claim(Guarantee.NET_CONFINED, "A name with one address inside is refused whole."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "address", calls=("request",))),
    attack=attack,
    control=control,
)
