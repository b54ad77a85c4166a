"""
Looks for the code that reports to the host, inside its own interpreter, and makes it report something else.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import gc, os, sys

def spoil(*args, **options):
    return b'\\xff' * 1000

for module in [m for name, m in list(sys.modules.items()) if name in ('__main__', 'boot', 'encode', 'json', 'struct')]:
    for name, value in list(vars(module).items()):
        if callable(value) and not name.startswith('__'):
            try:
                setattr(module, name, spoil)
            except Exception:
                pass
for frame in [sys._getframe(i) for i in range(1, 20) if i < 5] if hasattr(sys, '_getframe') else []:
    for name, value in list(frame.f_globals.items()):
        if callable(value) and not name.startswith('__'):
            frame.f_globals[name] = spoil
"""
NEXT = "print('SERVED')"
SAME = """
import sys

def spoil(frame):
    while frame:
        for name in list(frame.f_globals):
            if not name.startswith('__'):
                frame.f_globals[name] = None
        frame = frame.f_back

spoil(sys._getframe().f_back)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result = arena.run(CODE)
    after = arena.run(NEXT)
    served = after.stdout_bytes == b"SERVED\n"
    return Effect(not served, "the next run was served" if served else "the next run was not served", result)


def control(arena: Arena) -> Effect:
    """The same attempt where the executor is the interpreter itself."""
    bare = arena.outside.in_process(SAME, NEXT)
    served = b"SERVED" in bare.stdout_bytes
    return Effect(not served, "the next program was served" if served else "the executor died")


ATTACK = Attack(
    id="channel.boot_code",
    claim=Claim(
        Guarantee.CRASH_CONTAINED, "Taking over the code that reports costs the guest its own run and nothing else."
    ),
    tiers={
        "wasm": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
        "worker": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
        "confined": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
        "isolated": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
    },
    attack=attack,
    control=control,
)
