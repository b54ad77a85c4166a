"""
Makes a message queue (System V) that outlives its process.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
made = call('msgget', 0, 0o600)
call('msgctl', made, 0, 0) if made >= 0 else None
told(made)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "msgget", "msgctl"), "DONE", "made a queue")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "msgget", "msgctl"), "DONE", "made a queue")


ATTACK = Attack(
    id="kernel.message_queue",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No message queue of System V can be made."),
    tiers={"confined": refused("msgget"), "container": Expect(Layer.FILTER), "isolated": refused("msgget")},
    attack=attack,
    control=control,
)
