"""
Sends something to where it may, whose answer leads where it may not: the call fails, and what was sent has arrived.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading
from fastness.capabilities.net import NetScope

CODE = """
attempt(ctx.net.request, method='POST', url=URL, body=b'what it took')
"""
NAMES = {"a.test": [["127.0.0.1"]]}


def attack(arena: Arena) -> Effect:
    """In the tier, with the one host granted."""
    server = servers.serve(arena, servers.moved("http://b.test/"))
    adapter = brokering.net(NAMES, ("a.test", "127.0.0.1", server.port))
    with brokering.Broker(arena, net=adapter) as broker:
        granted = NetScope(hosts=("a.test",), schemes=("http",), ports=(server.port,))
        result = broker.run(CODE, granted, facts={"URL": f"http://a.test:{server.port}/"})
        brokering.sure(server.reached(), "nothing was sent")
        (end,) = [row for row in reading.records(str(broker.audit)) if row.phase == "outcome"]
        return Effect(end.decision == "refused", f"the record says {end.decision}, {end.code}", result)


def control(arena: Arena) -> Effect:
    """A host that records what it tells its guest."""
    server = servers.serve(arena, servers.moved("http://b.test/"))
    bare = brokering.control(arena, CODE, URL=f"http://a.test:{server.port}/", NAMES=dict(NAMES))
    told = brokering.times(bare, "refused:")
    return Effect(server.reached() and told == 1, f"{told} calls were told as refused, and were delivered")


ATTACK = Attack(
    id="broker.record_answer_refused",
    claim=Claim(Rule.RECORDED, "What was done is not on record as refused where its answer was."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "redirect", calls=("request",))
    ),
    attack=attack,
    control=control,
)
