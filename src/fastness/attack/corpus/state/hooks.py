"""
Leaves hooks that listen to whoever runs next.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

FIRST = """
import builtins, gc, sys

real = builtins.print
def listen(*args, **options):
    real('HEARD', *args, **options)
builtins.print = listen
sys.addaudithook(lambda event, args: real('HEARD', event) if event == 'attack.secret' else None)
gc.callbacks.append(lambda phase, info: real('HEARD') if phase == 'stop' else None)
class Bomb:
    def __del__(self):
        real('HEARD')
sys.bomb = Bomb()
"""
SECOND = """
import gc, sys

sys.audit('attack.secret')
gc.collect()
print('my secret')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    arena.run(FIRST)
    return arena.said(arena.run(SECOND), "HEARD", "listened to the next run")


def control(arena: Arena) -> Effect:
    """The same two programs in one interpreter."""
    return arena.said(arena.outside.in_process(FIRST, SECOND), "HEARD", "listened to the next program")


ATTACK = Attack(
    id="state.hooks",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No hook or callback of an earlier run listens to a later one."),
    tiers={
        "wasm": Expect(Layer.FRESH),
        "worker": Expect(Layer.FRESH),
        "confined": Expect(Layer.FRESH),
        "container": Expect(Layer.FRESH),
        "isolated": Expect(Layer.FRESH),
    },
    attack=attack,
    control=control,
)
