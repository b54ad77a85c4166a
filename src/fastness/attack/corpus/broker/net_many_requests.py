"""
Makes more requests than a run may.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.limits import Limits

MOST = 8

CODE = """
for _ in range(20):
    attempt(ctx.net.request, method='GET', url=URL)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a limit of eight."""
    server = servers.serve(arena, servers.answer(b""))
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port))
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}/"}
        how = {"limits": Limits(net_requests=MOST)}
        result = broker.run(CODE, brokering.everywhere(server.port), facts=facts, how=how)
    return Effect(len(server.heads) > MOST, f"{len(server.heads)} were made", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(b""))
    brokering.control(arena, CODE, URL=f"http://a.test:{server.port}/", NAMES={"a.test": [["127.0.0.1"]]})
    return Effect(len(server.heads) > MOST, f"{len(server.heads)} were made")


ATTACK = Attack(
    id="broker.net_many_requests",
    claim=Claim(Rule.BOUNDED, "A run makes no more requests than it may."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("request",))),
    attack=attack,
    control=control,
)
