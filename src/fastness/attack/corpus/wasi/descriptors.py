"""
Closes and renames every descriptor that there may be, those of whoever serves it too.
"""

from __future__ import annotations

from fastness.attack import serving
from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    (local $fd i32)
    (loop $next
      (drop (call $fd_renumber (local.get $fd) (i32.add (local.get $fd) (i32.const 1))))
      (drop (call $fd_close (local.get $fd)))
      (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $fd) (i32.const 1100))))
    (drop (call $fd_close (i32.const -1)))
    (drop (call $fd_close (i32.const 0x7fffffff)))
"""
#: A host whose descriptors are those of its guest.
_GRANTS = """
import atexit, os

def close(fd):
    try:
        os.close(fd)
    except (OSError, OverflowError):
        return 8
    return 0

i32 = wasmtime.ValType.i32()
linker.define_func('wasi_snapshot_preview1', 'fd_close', wasmtime.FuncType([i32], [i32]), close)
atexit.register(lambda: os.write(1, b'ALIVE'))
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result = arena.module(_module())
    served = serving.served(arena)
    return Effect(not served, "the next run was served" if served else "the next run was not served", result)


def control(arena: Arena) -> Effect:
    """The same module in such a host."""
    bare = arena.outside.module(_module(), grants=_GRANTS)
    alive = b"ALIVE" in bare.stdout_bytes
    return Effect(not alive, "the host was heard after it" if alive else "the host was heard no more")


def _module() -> bytes:
    return assemble(module(BODY, "fd_renumber", "fd_close"))


ATTACK = Attack(
    id="wasi.descriptors",
    claim=Claim(Guarantee.CRASH_CONTAINED, "Descriptors that a module closes or renames are its own and no engine's."),
    tiers={"wasm": Expect(Layer.ENGINE, outcomes=("ok",))},
    attack=attack,
    control=control,
)
