"""
Schedules itself, and is another plugin by the time that it is due: a new version that asks for more.
"""

from __future__ import annotations

from fastness.attack import brokering, schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

MORE = '[[capabilities]]\nkind = "memory"\nnotes = 10\nquota = 4096\nreason = "More."\n'
FIRST = """
import time

def begin(ctx):
    ctx.schedule.at(time.time() + 0.2, 'work')

def work(ctx):
    pass
"""
SECOND = """
def begin(ctx):
    pass

def work(ctx):
    ctx.storage.put(key='name', value=1)
"""
STEPS = """
host.install('plugin', FOLDERS['first'])
host.grant('plugin')
host.invoke('plugin', 'begin')
host.install('plugin', FOLDERS['second'])
host.granted.clear()
host.tick(time.time() + 1)
print('KEPT' if ctx.storage.list()['keys'] else 'NOTHING')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where nobody has looked at the new version."""
    with schedules.Timed(arena) as timed:
        timed.install(FIRST, "begin", "work")
        timed.home.grant()
        result = timed.home.invoke(method="begin")
        timed.install(SECOND, "begin", "work", more=MORE, version="2.0.0", upgrade=True)
        timed.start()
        timed.wait()
        codes, kept = {one.code for one in timed.fired}, timed.home.kept()
    brokering.sure(codes == {"not_granted"} or kept, f"it was not called as {codes}")
    return Effect(kept > 0, f"it kept {kept} things", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    bare = schedules.careless(arena, STEPS, {"first": {"plugin.py": FIRST}, "second": {"plugin.py": SECOND}})
    return arena.said(bare, "KEPT", "kept something")


ATTACK = Attack(
    id="plugins.schedule_after_upgrade",
    claim=Claim(Rule.PACKAGED, "What an old version scheduled calls no new one that nobody has agreed to."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
