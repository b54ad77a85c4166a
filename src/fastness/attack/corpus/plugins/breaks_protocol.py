"""
Writes on the channel what nobody may, and is called again.
"""

from __future__ import annotations

from fastness.attack import asking, hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

STEPS = """
import socket
host.install('plugin', FOLDERS['plugin']); host.grant('plugin')
for _ in range(3):
    one, two = socket.socketpair()
    host.invoke('plugin', channel=two.fileno())
print('RAN', len(ctx.storage.list()['keys']))
"""

CODE = """
import os, time

def work(ctx, channel):
    ctx.storage.put(key=f'{time.time_ns()}', value=1)
    os.write(channel, b'x' * 4096)
    time.sleep(0.2)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, three times."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        home.grant()
        results = [home.tried(channel=asking.channel(arena)) for _ in range(3)]
        kept = home.kept()
        if not kept or results[0] is None:
            raise RuntimeError("it did not run at all")
        return Effect(kept > 1, f"it ran {kept} times of 3", results[0])


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": CODE}})
    return arena.said(bare, "RAN 3", "was called each time")


ATTACK = Attack(
    id="plugins.breaks_protocol",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A plugin that has broken the protocol once is called no more."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("protocol",))),
    attack=attack,
    control=control,
)
