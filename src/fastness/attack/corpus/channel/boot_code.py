"""
Looks for the code that reports to the host, inside its own interpreter, and makes it report something else.
"""

from __future__ import annotations

from fastness.attack import serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import sys

def spoil(*args, **options):
    return b'\\xff' * 1000

frame = sys._getframe().f_back
spaces = [vars(module) for name, module in list(sys.modules.items()) if name in SPOILT]
while frame:
    spaces.append(frame.f_globals)
    frame = frame.f_back
for space in spaces:
    for name in list(space):
        if not name.startswith('__') and (ALL or callable(space[name])):
            try:
                space[name] = spoil
            except Exception:
                pass
"""
#: Modules of the code that reports, and those that it reports with.
_SPOILT = ("__main__", "boot", "encode", "json", "struct", "_fastness", "_fastness_encode")


def attack(arena: Arena) -> Effect:
    """In the tier: functions alone, which still reports something, and everything; another run follows each."""
    return serving.after(arena, _program(arena, False), _program(arena, True))


def control(arena: Arena) -> Effect:
    """The same program where the executor is the interpreter itself."""
    return serving.in_process(arena, _program(arena, True))


def _program(arena: Arena, everything: bool) -> str:
    return arena.python(CODE, SPOILT=_SPOILT, ALL=everything)


ATTACK = Attack(
    id="channel.boot_code",
    claim=Claim(
        Guarantee.CRASH_CONTAINED, "Taking over the code that reports costs the guest its own run and nothing else."
    ),
    tiers={
        "wasm": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
        "worker": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
        "confined": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
        "container": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
        "isolated": Expect(Layer.ENGINE, outcomes=("ok", "guest_error", "crashed", "protocol")),
    },
    attack=attack,
    control=control,
)
