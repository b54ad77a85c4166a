"""
Asks for an answer of a few kilobytes that is unpacked to 12 megabytes.
"""

from __future__ import annotations

import gzip

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
found = attempt(ctx.net.request, method='GET', url=URL + '/')
if found and len(found['body']) > 8 << 20:
    print('UNPACKED')
"""


def _packed() -> bytes:
    return servers.answer(gzip.compress(bytes(12 << 20), 9), "Content-Encoding: gzip")


def attack(arena: Arena) -> Effect:
    """In the tier, with a cap of 1 MiB."""
    server = servers.serve(arena, _packed())
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port), response_bytes=1 << 20)
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}"}
        result = broker.run(CODE, brokering.everywhere(server.port), facts=facts)
        return arena.said(result, "UNPACKED", "got all of it")


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, _packed())
    bare = brokering.control(arena, CODE, URL=f"http://a.test:{server.port}", NAMES={"a.test": [["127.0.0.1"]]})
    return arena.said(bare, "UNPACKED", "got all of it")


ATTACK = Attack(
    id="broker.net_packed_body",
    claim=Claim(Rule.BOUNDED, "An answer is unpacked up to its cap."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "too_large", calls=("request",))
    ),
    attack=attack,
    control=control,
)
