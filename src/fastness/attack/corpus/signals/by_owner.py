"""
Names another process as the owner of a pipe, so that the kernel signals it when there is something to read.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.attack.native import SIGNAL
from fastness.tier import Guarantee

CODE = """
import fcntl, os

read, write = os.pipe()
try:
    fcntl.fcntl(read, 10, SIGNAL)
    fcntl.fcntl(read, fcntl.F_SETOWN, VICTIM)
    fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)
except OSError as error:
    print(error)
os.write(write, b'x')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    witness = arena.witness()
    return native.noticed(arena, witness, arena.python(CODE, VICTIM=witness.pid, SIGNAL=SIGNAL), programs=False)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    witness = arena.witness()
    arena.outside.run(arena.python(CODE, VICTIM=witness.pid, SIGNAL=SIGNAL))
    return native.mark_of(arena, witness)


ATTACK = Attack(
    id="signals.by_owner",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The kernel signals nobody on a guest's behalf."),
    tiers={"confined": refused("fcntl"), "container": Expect(Layer.FILTER), "isolated": refused("fcntl")},
    attack=attack,
    control=control,
)
