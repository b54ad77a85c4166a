"""
Has a server say back the credential that the host added: as it is, in base64, percent-encoded and in hexadecimal.
"""

from __future__ import annotations

import base64
from urllib.parse import quote

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.attack.outside import Bare
from fastness.capabilities.net import Secret
from fastness.runs import RunResult

CODE = """
for path in ('/', '/in-a-field'):
    found = attempt(ctx.net.request, method='GET', url=URL + path)
    print(found and found['body'], found and found['headers'])
"""


def _value(arena: Arena) -> str:
    return f"{arena.token}/+%="


def _echo(head: bytes) -> list[bytes]:
    value = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization"))[22:]
    forms = (value, base64.b64encode(b"key=" + value), quote(value, safe="").encode(), value.hex().encode())
    if b"in-a-field" in head:
        return [servers.answer(b"", *(f"X-{number}: {form.decode()}" for number, form in enumerate(forms)))]
    return [servers.answer(b"\n".join(forms))]


def _forms(ran: RunResult | Bare, value: str) -> int:
    data = value.encode()
    # Of base64 what does not depend on what stands before and after.
    forms = (data, base64.b64encode(b"key=" + data)[8:24], quote(value, safe="").encode(), data.hex().encode())
    return sum(form in ran.stdout_bytes for form in forms)


def attack(arena: Arena) -> Effect:
    """In the tier, with a credential granted."""
    server = servers.serve(arena, _echo)
    adapter = brokering.net(
        {"a.test": [["127.0.0.1"]]},
        ("a.test", "127.0.0.1", server.port),
        secrets=[
            Secret(
                name="key",
                origin=f"http://a.test:{server.port}",
                methods=("GET",),
                value=_value(arena),
                plain_http=True,
            )
        ],
    )
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}"}
        result = broker.run(CODE, brokering.everywhere(server.port, secrets=("key",)), facts=facts)
        came = _forms(result, _value(arena))
        brokering.sure("Bearer" in server.text(), "the credential was not used")
        return Effect(came > 0, f"it came back in {came} forms", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, _echo)
    bare = brokering.control(
        arena, CODE, URL=f"http://a.test:{server.port}", NAMES={"a.test": [["127.0.0.1"]]}, CREDENTIAL=_value(arena)
    )
    came = _forms(bare, _value(arena))
    return Effect(came == 4, f"it came back in {came} forms")


ATTACK = Attack(
    id="broker.net_credential_echoed",
    claim=Claim(
        Rule.OWNED, "A credential of the host does not come back to a guest, in the four forms that are looked for."
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
