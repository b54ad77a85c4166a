"""
Signals a process of the same user.
"""

from __future__ import annotations

import subprocess

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.runs import RunResult
from fastness.tier import Guarantee

CODE = """
import os

os.kill(VICTIM, 9)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    victim = arena.victim()
    result = arena.run(arena.python(CODE, VICTIM=victim.pid))
    return _effect(victim, result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    victim = arena.victim()
    arena.outside.run(arena.python(CODE, VICTIM=victim.pid))
    return _effect(victim)


def _effect(victim: subprocess.Popen[bytes], result: RunResult | None = None) -> Effect:
    try:
        victim.wait(0.3)
    except subprocess.TimeoutExpired:
        return Effect(False, "the process lives on", result)
    return Effect(True, "the process is dead", result)


ATTACK = Attack(
    id="process.kill",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Processes of this machine cannot be signalled."),
    tiers={
        "wasm": Expect(Layer.ABSENT),
        "worker": Expect(Layer.GUEST, "unsupported"),
        "confined": refused("kill"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("kill"),
    },
    attack=attack,
    control=control,
)
