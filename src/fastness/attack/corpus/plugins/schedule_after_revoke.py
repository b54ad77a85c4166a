"""
Schedules itself, and loses its grant, or that of scheduling alone, before it is due.
"""

from __future__ import annotations

from fastness.attack import brokering, schedules
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
import time

def begin(ctx):
    ctx.schedule.at(time.time() + 0.15, 'work')
    ctx.schedule.every(60, 'work', {}, time.time() + 0.15)

def work(ctx):
    ctx.storage.put(key='name', value=1)
"""
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
host.invoke('plugin', 'begin')
host.granted.clear()
host.tick(time.time() + 1)
print('KEPT' if ctx.storage.list()['keys'] else 'NOTHING')
"""


def attack(arena: Arena) -> Effect:
    """In the tier: without any grant, and with one of the rest."""
    with schedules.Timed(arena) as timed:
        timed.install(CODE, "begin", "work")
        timed.home.grant()
        timed.home.grant(owner="other")
        result = timed.home.invoke(method="begin")
        timed.home.invoke(method="begin", owner="other")
        timed.home.revoke()
        timed.home.grant(owner="other", all=False, allowed=["storage"])
        timed.start()
        timed.wait(4)
        codes = {one.code for one in timed.fired}
        kept = timed.home.kept() + timed.home.kept(owner="other")
    brokering.sure(codes == {"not_granted"} or kept, f"it was not called as {codes}")
    return Effect(kept > 0, f"it kept {kept} things", result)


def control(arena: Arena) -> Effect:
    """Before a host that remembers who might when it was scheduled."""
    bare = schedules.careless(arena, STEPS, {"plugin": {"plugin.py": CODE}})
    return arena.said(bare, "KEPT", "kept something")


ATTACK = Attack(
    id="plugins.schedule_after_revoke",
    claim=Claim(Rule.GRANTED, "What was scheduled is called under the grant of its time, and not that of before."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)
