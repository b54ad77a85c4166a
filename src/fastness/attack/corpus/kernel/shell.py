"""
Starts a shell by the C library, and a program by its quickest way.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
os.posix_spawnp('echo', ['echo', 'DONE'], {}) if not os.system('echo DONE') else print('no shell')
os.posix_spawnp('echo', ['echo', 'DONE'], {})
os.wait()
"""


def attack(arena: Arena) -> Effect:
    """As Python code."""
    return native.tried(arena, native.program(CODE), "DONE", "started one", programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE), "DONE", "started one")


ATTACK = Attack(
    id="kernel.shell",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "Python code starts no shell."),
    tiers={
        "confined": refused("clone", "vfork", "clone3"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("clone", "vfork", "clone3"),
    },
    attack=attack,
    control=control,
)
