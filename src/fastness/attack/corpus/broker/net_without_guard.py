"""
Asks where the host was set up without a guard of addresses.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.net import Net
from fastness.tier import Guarantee

CODE = """
attempt(ctx.net.request, method='GET', url=URL)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with every host granted."""
    server = servers.serve(arena, servers.answer(arena.token.encode()))
    with brokering.Broker(arena, net=Net(None)) as broker:
        return server.knocked(broker.run(CODE, brokering.everywhere(server.port), facts={"URL": server.url}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(arena.token.encode()))
    return server.knocked(brokering.control(arena, CODE, URL=server.url))


ATTACK = Attack(
    id="broker.net_without_guard",
    claim=Claim(Guarantee.NET_CONFINED, "Without a guard of addresses nothing is asked."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "no_adapter", calls=("request",))),
    attack=attack,
    control=control,
)
