"""
Signals a process of the machine by its number, in every way that there is.
"""

from __future__ import annotations

from fastness.attack import native, ways
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.attack.native import SIGNAL
from fastness.attack.outside import Bare
from fastness.tier import Guarantee

CODE = """
import os, signal

about = struct.pack('=iiiiii', SIGNAL, 0, -1, 0, 0, 0) + bytes(104)

def tries():
    yield lambda: os.kill(VICTIM, SIGNAL)
    yield lambda: told(call('tgkill', VICTIM, VICTIM, SIGNAL))
    yield lambda: told(call('tkill', VICTIM, SIGNAL))
    yield lambda: told(call('rt_sigqueueinfo', VICTIM, SIGNAL, about))
    yield lambda: told(call('rt_tgsigqueueinfo', VICTIM, VICTIM, SIGNAL, about))
    yield lambda: told(call('pidfd_send_signal', call('pidfd_open', VICTIM, 0), SIGNAL, None, 0))
"""
_CALLS = ("tgkill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal")


def attack(arena: Arena) -> Effect:
    """In the tier."""
    witness = arena.witness()
    return native.noticed(arena, witness, ways.every(_program(witness.pid)))


def control(arena: Arena) -> Effect:
    """The same, unsandboxed, in each of its ways."""
    witness = arena.witness()

    def attempt(text: str) -> tuple[Bare, Effect]:
        arena.mark_file.unlink(missing_ok=True)
        bare = arena.outside.run(text)
        return bare, native.mark_of(arena, witness)

    return ways.each(_program(witness.pid), attempt)


def _program(victim: int) -> str:
    return native.program(CODE, *_CALLS, VICTIM=victim, SIGNAL=SIGNAL)


ATTACK = Attack(
    id="signals.by_number",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No call signals a process of this machine."),
    tiers={
        "confined": refused("kill", "tgkill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal", "pidfd_open"),
        "container": Expect(Layer.FILTER),
        "isolated": refused("kill", "tgkill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal", "pidfd_open"),
    },
    attack=attack,
    control=control,
    slow=True,
)
