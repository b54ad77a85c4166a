"""
Schedules itself twice, now, each time that it is called.
"""

from __future__ import annotations

import time

from fastness.attack import schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

MOST = 5
CODE = """
import time

def work(ctx):
    now = time.time()
    for number in range(2):
        ctx.schedule.at(now, 'work')
"""
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
host.invoke('plugin')
for number in range(8):
    host.ticked = 0
    host.tick(time.time() + 1)
print(host.fired, 'TIMES', flush=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where five may stand, and are called no more often in a minute."""
    with schedules.Timed(arena) as timed:
        timed.install(CODE, "work", standing=MOST)
        timed.home.grant()
        timed.start()
        result = timed.home.invoke()
        timed.wait(MOST)
        time.sleep(0.05)
        count = len(timed.fired)
        return Effect(count > MOST, f"it was called {count} times", timed.fired[-1].result or result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = schedules.careless(arena, STEPS, {"plugin": {"plugin.py": CODE}})
    return arena.said(bare, "100 TIMES", "was called as often as anybody counts")


ATTACK = Attack(
    id="plugins.schedule_storm",
    claim=Claim(Rule.BOUNDED, "A plugin that schedules itself is called no more often than was granted."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("at",))),
    attack=attack,
    control=control,
)
