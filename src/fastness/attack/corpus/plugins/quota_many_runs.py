"""
Makes its calls in many runs, each of which is well within what a run may do.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

MOST, RUNS = 20, 5
SETTINGS = f'[[quota]]\nowner = "*"\nper = "ever"\ncalls = {MOST}\n'
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
for number in range(RUNS):
    host.invoke('plugin', number=number)
print(len(ctx.storage.list()['keys']), 'KEPT', flush=True)
"""

CODE = """
def work(ctx, number):
    for key in range(8):
        try:
            ctx.storage.put(key=f'{number}/{key}', value=1)
        except Exception:
            return key
    return 8
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where an owner's plugins may make twenty calls."""
    with hosting.Home(arena, settings=SETTINGS) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        home.grant()
        results = [home.invoke(number=number) for number in range(RUNS)]
        kept = home.kept()
    return Effect(kept > MOST or not kept, f"{kept} calls had an effect", results[-1])


def control(arena: Arena) -> Effect:
    """Before a host that counts by the run."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": CODE}}, RUNS=RUNS)
    return arena.said(bare, f"{8 * RUNS} KEPT", "made all its calls")


ATTACK = Attack(
    id="plugins.quota_many_runs",
    claim=Claim(Rule.BOUNDED, "A quota of calls holds for all runs of an owner's plugins together."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("put",))),
    attack=attack,
    control=control,
)
