"""
Makes a system call by machine code of its own, past every library.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
import ctypes, mmap

# mov edi, 2; mov esi, 1; xor edx, edx; mov eax, 41; syscall; ret
code = bytes.fromhex('bf02000000be0100000031d2b8290000000f05c3')
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
result = ctypes.CFUNCTYPE(ctypes.c_long)(address)()
print('DONE' if result >= 0 else result, flush=True)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    native.only_on("x86_64")
    return native.tried(arena, CODE, "DONE", "had a socket")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, CODE, "DONE", "had a socket")


ATTACK = Attack(
    id="kernel.machine_code",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "The filter sees calls of machine code as it sees those of libraries."),
    tiers={"confined": refused("socket"), "isolated": refused("socket")},
    attack=attack,
    control=control,
)
