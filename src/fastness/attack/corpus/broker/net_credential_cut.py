"""
Asks for an answer in pieces, by whatever field servers know, so that no piece has the whole credential in it.
"""

from __future__ import annotations

import re

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.attack.outside import Bare
from fastness.capabilities.net import Secret
from fastness.runs import RunResult

CODE = """
for name in ('Range', 'if-range', 'Request-Range', 'request_range', 'X-Cut'):
    pieces = []
    for first in range(0, 60, 6):
        found = attempt(ctx.net.request, method='GET', url=URL, headers={name: f'bytes={first}-{first + 5}'})
        pieces.append(found['body'] if found else b'')
    print('WHOLE', b''.join(pieces))
"""
_WANTED = re.compile(rb"bytes=(\d+)-(\d+)")
_NAMES = {"a.test": [["127.0.0.1"]]}


def _echo(head: bytes) -> list[bytes]:
    """What it was sent, or as much as is asked for by any field."""
    value = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization")), b"")[22:]
    wanted = _WANTED.search(head)
    if wanted is None:
        return [servers.answer(value)]
    first, last = int(wanted[1]), int(wanted[2])
    part = f"Content-Range: bytes {first}-{last}/{len(value)}"
    return [servers.answer(value[first : last + 1], part, status="206 Partial Content")]


def _came(arena: Arena, ran: RunResult | Bare) -> int:
    return sum(b"WHOLE" in line and arena.token.encode() in line for line in ran.stdout_bytes.splitlines())


def attack(arena: Arena) -> Effect:
    """In the tier, with a credential granted."""
    server = servers.serve(arena, _echo)
    secret = Secret(
        name="key", origin=f"http://a.test:{server.port}", methods=("GET",), value=arena.token, plain_http=True
    )
    adapter = brokering.net(_NAMES, ("a.test", "127.0.0.1", server.port), secrets=[secret])
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}/"}
        result = broker.run(CODE, brokering.everywhere(server.port, secrets=("key",)), facts=facts)
        came = _came(arena, result)
        brokering.sure("Bearer" in server.text(), "the credential was not used")
        return Effect(came > 0, f"it came back in pieces by {came} of 5 fields", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, _echo)
    bare = brokering.control(
        arena, CODE, URL=f"http://a.test:{server.port}/", NAMES=dict(_NAMES), CREDENTIAL=arena.token
    )
    came = _came(arena, bare)
    return Effect(came == 5, f"it came back in pieces by {came} of 5 fields")


ATTACK = Attack(
    id="broker.net_credential_cut",
    claim=Claim(Rule.OWNED, "A credential of the host does not come back to a guest in pieces that it asked for."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "header", calls=("request",))),
    attack=attack,
    control=control,
)
