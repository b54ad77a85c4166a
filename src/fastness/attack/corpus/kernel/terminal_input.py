"""
Puts characters into a terminal's input, as if somebody had typed them.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
# On what is no terminal the kernel says so (25), but it has been asked.
result = call('ioctl', 1, 0x5412, ctypes.create_string_buffer(b' '))
told(0 if result == -25 else result)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "ioctl"), "DONE", "asked the kernel for it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "ioctl"), "DONE", "asked the kernel for it")


ATTACK = Attack(
    id="kernel.terminal_input",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No input can be forged on a terminal."),
    tiers={"confined": refused("ioctl"), "isolated": refused("ioctl")},
    attack=attack,
    control=control,
)
