"""
Asks with something in the query of a URL that nobody else is to read.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading

CODE = """
attempt(ctx.net.request, method='GET', url=URL)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; then all files of the audit trail are searched."""
    server = servers.serve(arena, servers.answer(b""))
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port))
    with brokering.Broker(arena, net=adapter) as broker:
        url = f"http://a.test:{server.port}/path?key={arena.token}"
        result = broker.run(CODE, brokering.everywhere(server.port), facts={"URL": url})
        rows = len(list(reading.records(str(broker.audit))))
        kept = brokering.anywhere(broker.folder, arena.token, "audit*")
    return Effect(kept or rows < 2 or not server.heads, f"{rows} rows, {'with' if kept else 'without'} it", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(b""))
    log = arena.folder / "careless.log"
    url = f"http://a.test:{server.port}/path?key={arena.token}"
    brokering.control(arena, CODE, URL=url, NAMES={"a.test": [["127.0.0.1"]]}, LOG=str(log))
    kept = brokering.anywhere(arena.folder, arena.token, "careless.log")
    return Effect(kept, f"the log is {'with' if kept else 'without'} it")


ATTACK = Attack(
    id="broker.net_query_recorded",
    claim=Claim(Rule.RECORDED, "No record has the query of a URL."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
