"""
Has a server set a cookie, and asks again.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
for _ in range(3):
    attempt(ctx.net.request, method='GET', url=URL + '/')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    server = servers.serve(arena, servers.answer(b"", "Set-Cookie: kept=yes; Path=/"))
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port))
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}"}
        result = broker.run(CODE, brokering.everywhere(server.port), facts=facts)
        brokering.sure(len(server.heads) == 3, "nobody asked")
        return Effect("kept=yes" in server.text(), f"{server.text().count('kept=yes')} of them came back", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(b"", "Set-Cookie: kept=yes; Path=/"))
    brokering.control(arena, CODE, URL=f"http://a.test:{server.port}", NAMES={"a.test": [["127.0.0.1"]]})
    return Effect("kept=yes" in server.text(), "it came back" if server.heads else "nobody asked")


ATTACK = Attack(
    id="broker.net_cookies",
    claim=Claim(Rule.OWNED, "No cookie is kept from one request to the next."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
