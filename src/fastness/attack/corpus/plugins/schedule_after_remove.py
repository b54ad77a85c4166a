"""
Is installed under the name of a plugin that was removed, and is called for what that one scheduled.
"""

from __future__ import annotations

import time

from fastness.attack import schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.waiting import drive

CODE = """
import time

def begin(ctx, word):
    ctx.schedule.at(time.time() + 0.1, 'work', {'word': word})

def work(ctx, word):
    ctx.storage.put(key='name', value=word)
"""
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
host.invoke('plugin', 'begin', word=TOKEN)
host.granted.clear()
host.install('plugin', FOLDERS['plugin'])
host.tick(time.time() + 1)
print('KEPT' if ctx.storage.list()['keys'] else 'NOTHING')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with schedules.Timed(arena) as timed:
        timed.install(CODE, "begin", "work")
        timed.home.grant()
        result = timed.home.invoke(method="begin", word=arena.token)
        drive(timed.home.host.remove("attack.plugin"))
        timed.install(CODE, "begin", "work")
        timed.home.grant()
        timed.start()
        time.sleep(0.25)
        kept = timed.home.kept()
        return Effect(kept > 0 or bool(timed.fired), f"it was called {len(timed.fired)} times", result)


def control(arena: Arena) -> Effect:
    """Before a host that only forgets the plugin's name."""
    bare = schedules.careless(arena, STEPS, {"plugin": {"plugin.py": CODE}}, TOKEN=arena.token)
    return arena.said(bare, "KEPT", "was called with what another had scheduled")


ATTACK = Attack(
    id="plugins.schedule_after_remove",
    claim=Claim(Rule.OWNED, "A plugin is called for nothing that one scheduled which had its name and was removed."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
