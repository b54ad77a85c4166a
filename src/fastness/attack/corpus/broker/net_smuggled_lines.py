"""
Puts line ends into names and values of fields, the path and the method, to say more than one request.
"""

from __future__ import annotations

from fastness.attack import brokering, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
line = '\\r\\nX-Smuggled: yes'
for how in (
    {'headers': {'x-a': 'a' + line}},
    {'headers': {'x-a' + line: 'a'}},
    {'headers': {'x-a': 'a\\nX-Smuggled: yes'}},
    {'url': URL + '/%20HTTP/1.0%0d%0aX-Smuggled:%20yes%0d%0aX-B:'},
    {'method': 'GET / HTTP/1.0' + line + '\\r\\n'},
):
    attempt(ctx.net.request, **{'method': 'GET', 'url': URL + '/', **how})
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with every host granted."""
    server = servers.serve(arena, servers.answer(b""))
    adapter = brokering.net({"a.test": [["127.0.0.1"]]}, ("a.test", "127.0.0.1", server.port))
    with brokering.Broker(arena, net=adapter) as broker:
        facts = {"URL": f"http://a.test:{server.port}"}
        result = broker.run(CODE, brokering.everywhere(server.port), facts=facts)
        smuggled = server.text().lower().count("\nx-smuggled")
        return Effect(smuggled > 0, f"{smuggled} lines were smuggled", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = servers.serve(arena, servers.answer(b""))
    brokering.control(arena, CODE, URL=f"http://a.test:{server.port}", NAMES={"a.test": [["127.0.0.1"]]})
    smuggled = server.text().lower().count("\nx-smuggled")
    return Effect(smuggled == 5, f"{smuggled} of 5 lines were smuggled")


ATTACK = Attack(
    id="broker.net_smuggled_lines",
    claim=Claim(Rule.GRANTED, "A request says what was judged: nothing of a guest's adds a line to it."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "header", calls=("request",))),
    attack=attack,
    control=control,
)
