"""
Has a server that a credential is for redirect to one of the attacker's.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.net import Secret

CODE = """
attempt(ctx.net.request, method='GET', url=URL)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a credential granted."""
    other = servers.serve(arena, servers.answer(b"thanks"))
    home = servers.serve(arena, servers.moved(f"http://b.test:{other.port}/"))
    secret = Secret(
        name="key", origin=f"http://a.test:{home.port}", methods=("GET",), value=arena.token, plain_http=True
    )
    names = {"a.test": [["127.0.0.1"]], "b.test": [["127.0.0.1"]]}
    allowed = [("a.test", "127.0.0.1", home.port), ("b.test", "127.0.0.1", other.port)]
    scope = brokering.everywhere(home.port, other.port, secrets=("key",))
    with brokering.Broker(arena, net=brokering.net(names, *allowed, secrets=[secret])) as broker:
        result = broker.run(CODE, scope, facts={"URL": f"http://a.test:{home.port}/"})
    brokering.sure(arena.token in home.text() and other.heads, "the credential or the redirect was not used")
    took = arena.token in other.text()
    return Effect(took, f"the other server {'had' if took else 'never had'} it", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    other = servers.serve(arena, servers.answer(b"thanks"))
    home = servers.serve(arena, servers.moved(f"http://b.test:{other.port}/"))
    names = {"a.test": [["127.0.0.1"]], "b.test": [["127.0.0.1"]]}
    brokering.control(arena, CODE, URL=f"http://a.test:{home.port}/", NAMES=names, CREDENTIAL=arena.token)
    took = arena.token in other.text()
    return Effect(took, f"the other server {'had' if took else 'never had'} it")


ATTACK = Attack(
    id="broker.net_credential_redirected",
    claim=Claim(Rule.OWNED, "A credential goes with no redirect to another origin."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
