"""
Asks a server whose answer comes a byte at a time, so that no single wait is long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

LONG_S = 1.1

CODE = """
attempt(ctx.net.request, method='GET', url=URL + '/')
"""


def _drip(_: bytes) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"
    for number in range(12):
        time.sleep(0.1)
        yield b"%d" % (number % 10)


def attack(arena: Arena) -> Effect:
    """In the tier, with 0.3 s for a call."""
    server = servers.serve(arena, _drip)
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port), call_s=0.3)
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}"}
        result = broker.run(CODE, brokering.everywhere(server.port), facts=facts)
        server.close()
        stayed = server.left_s or 0.0
        return Effect(stayed > LONG_S, f"it stayed {stayed:.1f} s", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, _drip)
    brokering.control(arena, CODE, URL=f"http://a.test:{server.port}", NAMES={"a.test": [["127.0.0.1"]]})
    server.close()
    stayed = server.left_s or 0.0
    return Effect(stayed > LONG_S, f"it stayed {stayed:.1f} s")


ATTACK = Attack(
    id="broker.net_slow_drip",
    claim=Claim(Rule.BOUNDED, "A call ends at its time, however its answer comes."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)
