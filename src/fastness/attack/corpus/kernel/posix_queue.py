"""
Makes a message queue (POSIX) that has a name and outlives its process.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
name = b'fastness-attack-' + os.urandom(8).hex().encode()
# Only where it is new.
made = call('mq_open', name, 0o302, 0o600, None)
call('mq_unlink', name) if made >= 0 else None
told(made)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "mq_open", "mq_unlink"), "DONE", "made a queue")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "mq_open", "mq_unlink"), "DONE", "made a queue")


ATTACK = Attack(
    id="kernel.posix_queue",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No message queue of POSIX can be made."),
    tiers={"confined": refused("mq_open"), "container": Expect(Layer.FILTER), "isolated": refused("mq_open")},
    attack=attack,
    control=control,
)
