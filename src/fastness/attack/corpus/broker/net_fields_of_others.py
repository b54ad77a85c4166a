"""
Sets fields that say who asks, on whose behalf, and of which host.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
for name in (
    'Host',
    'hOsT',
    'Cookie',
    'Authorization',
    'Proxy-Authorization',
    'X-Forwarded-For',
    'X_Forwarded_For',
    'Forwarded',
    'Metadata-Flavor',
):
    attempt(ctx.net.request, method='GET', url=URL + '/', headers={name: 'pretended'})
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with every host granted."""
    server = servers.serve(arena, servers.answer(b""))
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port))
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}"}
        result = broker.run(CODE, brokering.everywhere(server.port), facts=facts)
        said = server.text().count("pretended")
        return Effect(said > 0, f"{said} were said", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(b""))
    brokering.control(arena, CODE, URL=f"http://a.test:{server.port}", NAMES={"a.test": [["127.0.0.1"]]})
    said = server.text().count("pretended")
    return Effect(said == 9, f"{said} of 9 were said")


ATTACK = Attack(
    id="broker.net_fields_of_others",
    claim=Claim(Rule.GRANTED, "Fields by which a request speaks for somebody else cannot be set."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "header", calls=("request",))),
    attack=attack,
    control=control,
)
