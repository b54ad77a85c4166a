"""
Is called once at a time, and the clock is put back to before that time, and forward over it again.
"""

from __future__ import annotations

import time
from functools import partial

from fastness.attack import hosting, schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
import time

def begin(ctx):
    ctx.schedule.at(time.time() + 0.05, 'work')

def work(ctx):
    ctx.storage.put(key=str(time.time_ns()), value=1)
"""
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
host.invoke('plugin', 'begin')
for now in (1, -3600, 2):
    host.tick(time.time() + now)
print(len(ctx.storage.list()['keys']), 'TIMES', flush=True)
"""


def _set(ahead: float) -> float:
    return time.time() + ahead


def attack(arena: Arena) -> Effect:
    """In the tier: an hour back, a day forward, and right again."""
    with schedules.Timed(arena) as timed:
        timed.install(CODE, "begin", "work")
        timed.home.grant()
        timed.start()
        firing = timed.home.host._firing
        assert firing is not None
        result = timed.home.invoke(method="begin")
        timed.wait()
        hosting.until(lambda: not list(timed.home.host._core.adapters.schedules().standing()))
        for ahead in (-3600.0, 86_400.0, 0.0):
            firing._timer._clock = partial(_set, ahead)
            firing._timer.wake()
            time.sleep(0.05)
        kept = timed.home.kept()
    return Effect(kept != 1, f"it was called {kept} times", result)


def control(arena: Arena) -> Effect:
    """Before a host that calls what lies between its last look and now."""
    bare = schedules.careless(arena, STEPS, {"plugin": {"plugin.py": CODE}})
    return arena.said(bare, "2 TIMES", "was called a second time")


ATTACK = Attack(
    id="plugins.schedule_clock",
    claim=Claim(Rule.BOUNDED, "What is called once is called once, however the clock is set afterwards."),
    tiers=dict.fromkeys(("isolated", "wasm"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
