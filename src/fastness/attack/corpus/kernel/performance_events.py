"""
Opens a counter of the processor, by which other programs can be watched.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('perf_event_open', struct.pack('=IIQQQQQ', 1, 112, 0, 0, 0, 0, 0x61) + bytes(64), 0, -1, -1, 0))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "perf_event_open"), "DONE", "had a counter")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "perf_event_open"), "DONE", "had a counter", root=True)


ATTACK = Attack(
    id="kernel.performance_events",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No performance counter can be had."),
    tiers={
        "confined": refused("perf_event_open"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("perf_event_open"),
    },
    attack=attack,
    control=control,
)
