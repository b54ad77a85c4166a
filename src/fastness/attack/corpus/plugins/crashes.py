"""
Crashes at each call, to be started again and again.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

TIMES = 5
STEPS = """
import subprocess
host.install('plugin', FOLDERS['plugin']); host.grant('plugin')
for _ in range(TIMES):
    pid = os.fork()
    if pid == 0:
        host.invoke('plugin')
    os.waitpid(pid, 0)
print('RAN', len(ctx.storage.list()['keys']))
"""

CODE = """
import os, time

def work(ctx):
    ctx.storage.put(key=f'{time.time_ns()}', value=1)
    os.abort()
"""


def attack(arena: Arena) -> Effect:
    """In the tier, five times."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        home.grant()
        results = [home.tried() for _ in range(TIMES)]
        kept = home.kept()
        if not kept or results[0] is None:
            raise RuntimeError("it did not run at all")
        return Effect(kept > 3, f"it ran {kept} times of {TIMES}", results[0])


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": CODE}}, TIMES=TIMES)
    return arena.said(bare, f"RAN {TIMES}", "was started each time")


ATTACK = Attack(
    id="plugins.crashes",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A plugin that has crashed three times is called no more."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("crashed",))),
    attack=attack,
    control=control,
)
