"""
Computes in many runs, each of which is well within what a run may take.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

#: Seconds of processor time that an owner's plugins may take, that a run takes, and that it may be over by: guests are
#: looked at by turns.
MOST_S, EACH_S, SLACK_S = 0.3, 0.2, 0.4
RUNS = 5
SETTINGS = f'[[quota]]\nowner = "*"\nper = "ever"\ncpu_s = {MOST_S}\n'
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
for _ in range(RUNS):
    host.invoke('plugin', seconds=EACH_S)
print('SPENT', time.process_time() >= 2 * MOST_S, flush=True)
"""

CODE = """
import time

def work(ctx, seconds):
    # By the wall where the guest's own clock says nothing of the processor.
    ends = time.perf_counter() + 10 * seconds
    spent = time.process_time() + seconds
    while time.process_time() < spent and time.perf_counter() < ends:
        pass
"""


def attack(arena: Arena) -> Effect:
    """In the tier: runs until one is cut short, and those after it, which do not begin."""
    with hosting.Home(arena, settings=SETTINGS) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        home.grant()
        results = [result for _ in range(RUNS) if (result := home.tried(seconds=EACH_S)) is not None]
        spent = sum(result.usage.cpu_s for result in results)
    seen = f"{len(results)} runs took {spent:.2f} s"
    return Effect(spent > MOST_S + SLACK_S or not spent, seen, results[-1])


def control(arena: Arena) -> Effect:
    """Before a host that counts by the run."""
    facts = {"RUNS": RUNS, "EACH_S": EACH_S, "MOST_S": MOST_S}
    bare = hosting.careless(arena, STEPS, limit_s=15.0, plugins={"plugin": {"plugin.py": CODE}}, **facts)
    return arena.said(bare, "SPENT True", "took all the time that it wanted")


ATTACK = Attack(
    id="plugins.quota_processor",
    claim=Claim(Rule.BOUNDED, "A quota of processor time holds for all runs of an owner's plugins together."),
    tiers=dict.fromkeys(("worker", "confined", "isolated"), Expect(Layer.LIMIT, outcomes=("cpu", "timeout"))),
    attack=attack,
    control=control,
    slow=True,
)
