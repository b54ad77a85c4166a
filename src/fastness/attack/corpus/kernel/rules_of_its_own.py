"""
Makes a set of rules for files (Landlock).
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('landlock_create_ruleset', None, 0, 1))
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE, "landlock_create_ruleset"), "DONE", "had an answer", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "landlock_create_ruleset"), "DONE", "had an answer")


ATTACK = Attack(
    id="kernel.rules_of_its_own",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code makes no rules for files."),
    tiers={
        "confined": refused("landlock_create_ruleset"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("landlock_create_ruleset"),
    },
    attack=attack,
    control=control,
)
