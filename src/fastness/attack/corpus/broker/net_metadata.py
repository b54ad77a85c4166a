"""
With every host granted, asks the metadata service of clouds, in each of its spellings and by a name that leads there.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

#: In the tier nothing is sent to any of them, whatever comes of it: what would send answers itself.
HOSTS = (
    "169.254.169.254",
    "169.254.169.254.",
    "2852039166",
    "0xa9fea9fe",
    "0xA9.0xFE.0xA9.0xFE",
    "0251.0376.0251.0376",
    "169.254.43518",
    "169.16689662",
    "\uff11\uff16\uff19.254.169.254",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[::a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::a9fe:a9fe]",
    "metadata.test",
)

CODE = """
for url in URLS:
    attempt(ctx.net.request, method='GET', url=url)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with every host granted."""
    adapter = brokering.unsent(brokering.net({"metadata.test": [["169.254.169.254"]]}), arena.token.encode())
    with brokering.Broker(arena, net=adapter) as broker:
        urls = [f"http://{host}/latest/" for host in HOSTS]
        return arena.leaked(broker.run(CODE, brokering.everywhere(80), facts={"URLS": urls}))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    inside = servers.serve(arena, servers.answer(arena.token.encode()), address=servers.INSIDE)
    urls = [f"http://{host}:{inside.port}/latest/" for host in HOSTS]
    names = {"metadata.test": [["169.254.169.254"]]}
    bare = brokering.control(arena, CODE, URLS=urls, NAMES=names, METADATA=["169.254.169.254"])
    return brokering.every(arena, bare, len(HOSTS))


ATTACK = Attack(
    id="broker.net_metadata",
    claim=Claim(Guarantee.NET_CONFINED, "A grant of every host reaches no metadata service, however it is spelled."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "address", calls=("request",))),
    attack=attack,
    control=control,
)
