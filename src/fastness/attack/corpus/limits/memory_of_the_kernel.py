"""
Has the kernel hold what it may not: in pipes and in sockets that nobody reads.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import fcntl, os, socket

held, total = [], 0
try:
    for _ in range(120):
        read, write = os.pipe()
        try:
            fcntl.fcntl(write, 1031, 1 << 20)
        except OSError:
            pass
        one, other = socket.socketpair()
        held += [read, write, one, other]
        for fd in (write, one.fileno()):
            os.set_blocking(fd, False)
            try:
                while True:
                    total += os.write(fd, b'x' * 65536)
            except OSError:
                pass
except OSError as error:
    print(error)
print('HELD' if total > 48 << 20 else total, flush=True)
"""


def attack(arena: Arena) -> Effect:
    """With 32 MiB; in `isolated` as a program too."""
    limits = {"file_bytes": 1 << 20, "fds": 300}
    return native.tried(arena, CODE, "HELD", "had the kernel hold 48 MiB", memory="32M", limits=limits)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "HELD", "had the kernel hold 48 MiB")


ATTACK = Attack(
    id="limits.memory_of_the_kernel",
    claim=Claim(Guarantee.MEM_CAP, "What the kernel holds for a guest is bounded too."),
    tiers={
        "confined": Expect(Layer.RLIMIT, outcomes=("ok", "memory", "crashed", "guest_error")),
        "isolated": Expect(Layer.RLIMIT, outcomes=("ok", "memory", "crashed", "guest_error")),
    },
    attack=attack,
    control=control,
)
