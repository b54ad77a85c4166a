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
SAME = """
import os

os.urandom(200 << 20)
peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))
if int(peak.split()[1]) > 200 << 10:
    print('SURVIVED')
"""
_MUCH = 100 << 20


def attack(arena: Arena) -> Effect:
    """In the tier: an idle module first, so that the hostile one finds engines as large as they get by themselves."""
    calls = ("random_get", "fd_read", "fd_readdir", "poll_oneoff", "path_symlink")
    arena.module(assemble(module(IDLE)))
    before = peaks()
    result = arena.module(assemble(module(BODY, *calls)), preopens=("/",))
    grown = max((size - before.get(pid, _MUCH) for pid, size in peaks().items()), default=0)
    return Effect(
        grown > _MUCH, f"no engine grew by more than {max(grown, 0) >> 20} MiB" if grown <= _MUCH else "it grew", result
    )


def control(arena: Arena) -> Effect:
    """A host that allocates what it is asked for; a tenth of the length is enough to see it."""
    return arena.said(arena.outside.run(SAME), "SURVIVED", "allocated what was asked for")


ATTACK = Attack(
    id="wasi.host_allocation",
    claim=Claim(Guarantee.MEM_CAP, "A length that a guest gives never makes the host allocate as much."),
    tiers={"wasm": Expect(Layer.ABSENT, outcomes=("ok", "crashed"))},
    attack=attack,
    control=control,
)
