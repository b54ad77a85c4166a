"""
Hands over source text that is nested deeper than a compiler likes.
"""

from __future__ import annotations

from fastness.attack import serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Skip
from fastness.tier import Guarantee

_DEPTH = 50_000
SOURCES = ("x" + ".y" * _DEPTH, "1" + "+x" * _DEPTH, "(" * _DEPTH + ")" * _DEPTH)
#: A host that compiles in a thread of its own process and has raised the recursion limit, as many must.
_HOST = """
import sys, threading

sys.setrecursionlimit(10**9)
threading.stack_size(1 << 18)
thread = threading.Thread(target=compile, args=(SOURCE, '<source>', 'exec'))
thread.start()
thread.join()
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows each."""
    return serving.after(arena, *SOURCES)


def control(arena: Arena) -> Effect:
    """The same sources in the process that is to serve the next program: each ends it."""
    for source in SOURCES:
        bare = arena.outside.in_process(f"SOURCE = {source!r}\n{_HOST}", serving.NEXT)
        if b"SERVED" not in bare.stdout_bytes:
            continue
        if b"RecursionError" in bare.stderr_bytes:
            raise Skip("the compiler of this machine's Python keeps count of its stack")
        return Effect(False, "the next program was served")
    return Effect(True, "the executor died")


ATTACK = Attack(
    id="limits.nested_source",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Source text cannot bring down what compiles it."),
    tiers={
        "wasm": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
        "worker": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
        "confined": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
        "container": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
        "isolated": Expect(Layer.ENGINE, outcomes=("guest_error", "crashed", "memory")),
    },
    attack=attack,
    control=control,
)
