"""
Multiplies without end.
"""

from __future__ import annotations

from fastness.attack import serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, signal, sys, time

made = 0
try:
    while made < 400:
        pid = os.fork()
        if pid == 0:
            time.sleep(1.5)
            os._exit(0)
        made += 1
except OSError as error:
    print(error)
print('MANY' if made > 100 else made, flush=True)
"""


def attack(arena: Arena) -> Effect:
    """As a command with 40 allowed; a run follows."""
    result = arena.program(CODE, limits={"pids": 40})
    served = serving.served(arena)
    effect = arena.said(result, "MANY", "had more processes than it may")
    return effect if served else Effect(True, "the next run was not served", result)


def control(arena: Arena) -> Effect:
    """A few more than the limit of the attack."""
    return arena.said(arena.outside.run(CODE.replace("400", "120")), "MANY", "had as many as it wanted")


ATTACK = Attack(
    id="limits.processes",
    claim=Claim(Guarantee.PIDS_CAP, "Processes past the limit cannot be made."),
    tiers={"container": Expect(Layer.CGROUP), "isolated": Expect(Layer.CGROUP)},
    attack=attack,
    control=control,
    slow=True,
)
