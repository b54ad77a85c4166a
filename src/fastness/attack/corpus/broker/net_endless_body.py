"""
Asks for an answer that does not end.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

#: More than buffers of the kernel hold, of both answers.
MUCH = 18 << 20

CODE = """
for path in ('/', '/unsaid'):
    attempt(ctx.net.request, method='GET', url=URL + path)
"""


def _endless(head: bytes) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n\r\n" if b"unsaid" in head else b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
    for _ in range(12):
        yield bytes(1 << 20)


def attack(arena: Arena) -> Effect:
    """In the tier, with a cap of 1 MiB."""
    server = servers.serve(arena, _endless)
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port), response_bytes=1 << 20)
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}"}
        result = broker.run(CODE, brokering.everywhere(server.port), facts=facts)
        return Effect(server.sent > MUCH, f"{server.sent >> 20} MiB were taken", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, _endless)
    brokering.control(arena, CODE, URL=f"http://a.test:{server.port}", NAMES={"a.test": [["127.0.0.1"]]})
    return Effect(server.sent > MUCH, f"{server.sent >> 20} MiB were taken")


ATTACK = Attack(
    id="broker.net_endless_body",
    claim=Claim(Rule.BOUNDED, "An answer past its cap is not read."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "too_large", calls=("request",))
    ),
    attack=attack,
    control=control,
)
