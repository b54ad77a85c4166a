"""
Two plugins that answer each other's signals, for ever.
"""

from __future__ import annotations

from fastness.attack import hosting, signalling
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading
from fastness.waiting import drive

#: Calls after which nobody doubts that it goes on, and in the control ends it.
MANY = 20
CODE = """
def work(ctx, signal=None):
    ctx.signals.publish(topic={topic!r}, data='again')
"""
STEPS = """
for name in ('ping', 'pong'):
    host.install(name, FOLDERS[name])
    host.grant(name)

class Signals:
    calls = 0

    def publish(self, topic, data=None):
        self.calls += 1
        if self.calls > MANY:
            print('GOES ON', flush=True)
            raise SystemExit
        host.invoke({'ping': 'ping', 'pong': 'pong'}[topic], signal={'topic': topic, 'data': data})

ctx.signals = Signals()
host.invoke('ping')
"""


def attack(arena: Arena) -> Effect:
    """In the tier: one is called, and then all is handed over that comes of it."""
    with hosting.Home(arena) as home:
        for one, other in (("ping", "pong"), ("pong", "ping")):
            wish = signalling.wants(publish=[other], subscribe=[one], handlers={one: "work"})
            toml = hosting.manifest("work", id=f"attack.{one}", more=wish)
            home.install({"plugin.toml": toml, "plugin.py": CODE.format(topic=other)}, id=f"attack.{one}")
            home.grant(f"attack.{one}")
        home.invoke("attack.ping")
        done = drive(home.host.deliver(most=MANY))
        rows = list(reading.records(str(home.data / "audit.db")))
    refused = sum(row.capability == "signals" and row.code == "quota" for row in rows)
    results = [one.result for one in done if one.result is not None]
    on = len(done) >= MANY or not results or not refused
    return Effect(
        on, f"it ended after {len(done)} calls, {refused} on record as refused", results[-1] if results else None
    )


def control(arena: Arena) -> Effect:
    """Before a host that calls whoever is told."""
    plugins = {one: {"plugin.py": CODE.format(topic=other)} for one, other in (("ping", "pong"), ("pong", "ping"))}
    bare = hosting.careless(arena, STEPS, plugins=plugins, MANY=MANY)
    return arena.said(bare, "GOES ON", "went on")


ATTACK = Attack(
    id="plugins.signals_cycle",
    claim=Claim(Rule.BOUNDED, "Plugins that answer each other's signals come to an end, which is on record."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("publish",))),
    attack=attack,
    control=control,
)
