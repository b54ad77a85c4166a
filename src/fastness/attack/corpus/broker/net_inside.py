"""
With every host granted, asks a server of this machine, by the many ways to write an address.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

HOSTS = (
    "127.0.0.2",
    "127.2",
    "127.0.2",
    "0x7f.2",
    "0177.0.0.02",
    "2130706434",
    "0x7f000002",
    "\uff11\uff12\uff17.0.0.2",
    "[::ffff:127.0.0.2]",
    "[::ffff:7f00:2]",
    "[::7f00:2]",
    "[64:ff9b::7f00:2]",
    "inside.test",
)

CODE = """
for url in URLS:
    attempt(ctx.net.request, method='GET', url=url)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with every host granted."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    urls = [f"http://{host}:{inside.port}/" for host in HOSTS]
    with brokering.Broker(arena, net=brokering.net({"inside.test": [[servers.INSIDE]]})) as broker:
        result = broker.run(CODE, brokering.everywhere(inside.port), facts={"URLS": urls})
        return inside.knocked(result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    urls = [f"http://{host}:{inside.port}/" for host in HOSTS]
    bare = brokering.control(arena, CODE, URLS=urls, NAMES={"inside.test": [[servers.INSIDE]]})
    return brokering.every(arena, bare, len(HOSTS))


ATTACK = Attack(
    id="broker.net_inside",
    claim=Claim(
        Guarantee.NET_CONFINED, "A grant of every host reaches no address of the inside, however it is written."
    ),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "address", calls=("request",))),
    attack=attack,
    control=control,
)
