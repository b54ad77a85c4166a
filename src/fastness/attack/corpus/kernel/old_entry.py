"""
Makes a system call by the entry for 32-bit programs, whose numbers are others.
"""

from __future__ import annotations

import signal

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Skip
from fastness.tier import Guarantee

CODE = """
import ctypes, mmap

memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
ctypes.CFUNCTYPE(ctypes.c_long)(address)()
print('LIVED', flush=True)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    native.only_on("x86_64")
    return native.tried(arena, CODE, "LIVED", "lived through it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    bare = arena.outside.run(CODE)
    if bare.status == -signal.SIGSEGV:
        raise Skip("this kernel has no such entry")
    return arena.said(bare, "LIVED", "lived through it")


ATTACK = Attack(
    id="kernel.old_entry",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "The entry for 32-bit programs ends the process."),
    tiers={
        "confined": Expect(Layer.KILLED, outcomes=("crashed",)),
        "isolated": Expect(Layer.KILLED, outcomes=("crashed",)),
    },
    attack=attack,
    control=control,
)
