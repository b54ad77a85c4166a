"""
Signals a process of the machine by its number, in every way that there is.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.attack.native import SIGNAL
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

for each in tries():
    try:
        each()
    except OSError as error:
        print(error)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    witness = arena.witness()
    return native.noticed(
        arena,
        witness,
        native.program(
            CODE,
            "tgkill",
            "tkill",
            "rt_sigqueueinfo",
            "rt_tgsigqueueinfo",
            "pidfd_open",
            "pidfd_send_signal",
            VICTIM=witness.pid,
            SIGNAL=SIGNAL,
        ),
    )


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    witness = arena.witness()
    arena.outside.run(
        native.program(
            CODE,
            "tgkill",
            "tkill",
            "rt_sigqueueinfo",
            "rt_tgsigqueueinfo",
            "pidfd_open",
            "pidfd_send_signal",
            VICTIM=witness.pid,
            SIGNAL=SIGNAL,
        )
    )
    return native.mark_of(arena, witness)


ATTACK = Attack(
    id="signals.by_number",
    claim=Claim(Guarantee.ADDRESS_SPACE, "No call signals a process of this machine."),
    tiers={
        "confined": refused("kill", "tgkill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal", "pidfd_open"),
        "isolated": refused("kill", "tgkill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal", "pidfd_open"),
    },
    attack=attack,
    control=control,
)
