"""
Gives lengths of 2 GiB to calls that a careless host would allocate for.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.engines import peaks
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    (local $i i32)
    ;; a vector of buffers that claims to be 2 GiB long, and one of many entries
    (i32.store (i32.const 1032) (i32.const 0))
    (i32.store (i32.const 1036) (i32.const 0x7fff0000))
    (drop (call $random_get (i32.const 0) (i32.const 0x7fff0000)))
    (drop (call $fd_write (i32.const 1) (i32.const 1032) (i32.const 1) (i32.const 1024)))
    (drop (call $fd_write (i32.const 1) (i32.const 1032) (i32.const 0x0fffffff) (i32.const 1024)))
    (drop (call $fd_read (i32.const 0) (i32.const 1032) (i32.const 0x0fffffff) (i32.const 1024)))
    (drop (call $fd_readdir (i32.const 3) (i32.const 0) (i32.const 0x7fff0000) (i64.const 0) (i32.const 1024)))
    (drop (call $poll_oneoff (i32.const 0) (i32.const 0) (i32.const 0x02000000) (i32.const 1024)))
    (drop (call $path_symlink (i32.const 0) (i32.const 0x7fff0000) (i32.const 3) (i32.const 0) (i32.const 0x7fff0000)))
    (call $say)
"""
IDLE = """
    (call $say)
"""
#: A host that allocates what it is asked for; a tenth of the length is enough to see it.
_GRANTS = """
i32, i64 = wasmtime.ValType.i32(), wasmtime.ValType.i64()

def careless(name, kinds, where):
    def call(*values):
        made = bytearray(b'x') * (values[where] // 10)
        print('ALLOCATED' if len(made) > 200 << 20 else 'little', name, flush=True)
        return 0
    linker.define_func('wasi_snapshot_preview1', name, wasmtime.FuncType(kinds, [i32]), call)

careless('random_get', [i32] * 2, 1)
careless('fd_readdir', [i32, i32, i32, i64, i32], 2)
careless('path_symlink', [i32] * 5, 1)
"""
_CALLS = ("random_get", "fd_read", "fd_readdir", "poll_oneoff", "path_symlink")
_MUCH = 100 << 20


def attack(arena: Arena) -> Effect:
    """In the tier: an idle module first, so that the hostile one finds engines as large as they get by themselves."""
    arena.module(assemble(module(IDLE)))
    before = peaks()
    result = arena.module(assemble(module(BODY, *_CALLS)), preopens=("/",))
    grown = max((size - before.get(pid, _MUCH) for pid, size in peaks().items()), default=0)
    return Effect(
        grown > _MUCH, f"no engine grew by more than {max(grown, 0) >> 20} MiB" if grown <= _MUCH else "it grew", result
    )


def control(arena: Arena) -> Effect:
    """The same module in a host that does, for three of the calls."""
    bare = arena.outside.module(assemble(module(BODY, *_CALLS)), grants=_GRANTS)
    times = bare.stdout_bytes.count(b"ALLOCATED")
    return Effect(times == 3, f"{times} of its calls had the host allocate what was asked for")


ATTACK = Attack(
    id="wasi.host_allocation",
    claim=Claim(Guarantee.MEM_CAP, "A length that a guest gives never makes the host allocate as much."),
    tiers={"wasm": Expect(Layer.ABSENT, outcomes=("ok", "crashed"))},
    attack=attack,
    control=control,
)
