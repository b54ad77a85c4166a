"""
Has one request redirected without end.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.limits import Limits

MOST = 15

CODE = """
for _ in range(4):
    attempt(ctx.net.request, method='GET', url=URL, redirects=10)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a limit of fifteen."""
    server = servers.serve(arena, servers.moved("/again"))
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port))
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}/"}
        how = {"limits": Limits(net_requests=MOST)}
        result = broker.run(CODE, brokering.everywhere(server.port), facts=facts, how=how)
    return Effect(len(server.heads) > MOST, f"{len(server.heads)} were made", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.moved("/again"))
    brokering.control(arena, CODE, URL=f"http://a.test:{server.port}/", NAMES={"a.test": [["127.0.0.1"]]})
    return Effect(len(server.heads) > MOST, f"{len(server.heads)} were made")


ATTACK = Attack(
    id="broker.net_redirects_counted",
    claim=Claim(Rule.BOUNDED, "Each hop of a chain of redirects is a request that counts."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("request",))),
    attack=attack,
    control=control,
)
