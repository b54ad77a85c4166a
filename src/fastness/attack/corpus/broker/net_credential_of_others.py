"""
Asks with the credential that another owner has.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.net import AddressGuard, Allowance, Net, SecretFile

FILE = """
[[secret]]
name = "key"
owners = ["other"]
origin = "http://a.test:{port}"
methods = ["GET"]
plain_http = true
value = "{value}"
"""

CODE = """
attempt(ctx.net.request, method='GET', url=URL)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, on behalf of another."""
    server = servers.serve(arena, servers.answer(b""))
    held = arena.folder / "secrets.toml"
    held.write_text(FILE.format(port=server.port, value=arena.token))
    held.chmod(0o600)
    secrets = SecretFile(str(held))
    guard = AddressGuard([Allowance("a.test", "127.0.0.1", server.port)])
    brokering.net({})
    adapter = Net(guard, resolve=brokering.Names({"a.test": [["127.0.0.1"]]}), secrets=secrets)
    with brokering.Broker(arena, net=adapter) as broker:
        scope = brokering.everywhere(server.port, secrets=("key",))
        facts = {"URL": f"http://a.test:{server.port}/"}
        broker.run(CODE, scope, owner="other", facts=facts)
        brokering.sure(arena.token in server.text(), "the other owner's own request went without it")
        server.heads.clear()
        result = broker.run(CODE, scope, facts=facts)
    brokering.sure(server.heads, "nobody asked")
    took = arena.token in server.text()
    return Effect(took, "it went along" if took else "it did not go along", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(b""))
    names = {"a.test": [["127.0.0.1"]]}
    brokering.control(arena, CODE, URL=f"http://a.test:{server.port}/", NAMES=names, CREDENTIAL=arena.token)
    took = arena.token in server.text()
    return Effect(took, "it went along" if took else "it did not go along")


ATTACK = Attack(
    id="broker.net_credential_of_others",
    claim=Claim(Rule.OWNED, "A credential is used for the owners that it names."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
