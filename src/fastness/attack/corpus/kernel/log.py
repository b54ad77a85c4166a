"""
Reads the kernel's log, which tells addresses and what happens on the machine.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('syslog', 10, None, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "syslog"), "DONE", "asked the log")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "syslog"), "DONE", "asked the log", root=True)


ATTACK = Attack(
    id="kernel.log",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "The kernel's log is closed."),
    tiers={"confined": refused("syslog"), "container": Expect(Layer.FILTER), "isolated": refused("syslog")},
    attack=attack,
    control=control,
)
