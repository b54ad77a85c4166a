"""
Makes a process in a user namespace by the call whose flags no filter can read.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
child = call('clone3', struct.pack('=QQQQQ', 0x10000000, 0, 0, 0, 17) + bytes(48), 88)
if child == 0:
    os._exit(0)
print('DONE' if child > 0 else f'error {-child}')
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "clone3"), "DONE", "had a process there")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "clone3"), "DONE", "had a process there", root=True)


ATTACK = Attack(
    id="kernel.namespace_by_clone3",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No namespace can be had by `clone3`, which does not exist there."),
    tiers={"confined": Expect(Layer.ABSENT), "container": Expect(Layer.ABSENT), "isolated": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)
