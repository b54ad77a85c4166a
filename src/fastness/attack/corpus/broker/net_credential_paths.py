"""
Asks beside the path that a credential is bound to, in ways that servers read as below it, or above.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.net import Secret

CODE = """
above = ('/v1/../', '/v1/%2e%2e/', '/v1/..;/', '/v1/%252e%252e/', '/v1/..%2f', '/v1/%5c../')
above += ('/v1/%c0%ae%c0%ae/', '/v1/%ef%bc%8e%ef%bc%8e/', '/v1/..%ef%bc%8f')
for path in ('/admin', '/v1x', *(path + 'admin' for path in above)):
    attempt(ctx.net.request, method='GET', url=URL + path)
attempt(ctx.net.request, method='POST', url=URL + '/v1')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a credential granted."""
    server = servers.serve(arena, servers.answer(b""))
    adapter = brokering.net(
        {"a.test": [["127.0.0.1"]]},
        ("a.test", "127.0.0.1", server.port),
        secrets=[
            Secret(
                name="key",
                origin=f"http://a.test:{server.port}",
                methods=("GET",),
                path="/v1",
                value=arena.token,
                plain_http=True,
            )
        ],
    )
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}"}
        result = broker.run(CODE, brokering.everywhere(server.port, secrets=("key",)), facts=facts)
        went = server.text().count(arena.token)
        brokering.sure(len(server.heads) > 5, "nobody asked")
        return Effect(went > 0, f"it went with {went} of {len(server.heads)} requests", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(b""))
    brokering.control(
        arena, CODE, URL=f"http://a.test:{server.port}", NAMES={"a.test": [["127.0.0.1"]]}, CREDENTIAL=arena.token
    )
    went = server.text().count(arena.token)
    return Effect(went == 12, f"it went with {went} of {len(server.heads)} requests")


ATTACK = Attack(
    id="broker.net_credential_paths",
    claim=Claim(
        Rule.OWNED,
        "A credential goes with its path and what is below, and with nothing that somebody reads as elsewhere.",
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
