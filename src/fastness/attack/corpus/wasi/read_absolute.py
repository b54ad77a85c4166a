"""
Opens a file of the machine below its preopened root.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    ;; each preopened folder in turn: descriptors 3 and 4
    (local $folder i32)
    (local.set $folder (i32.const 3))
    (loop $next
      (if (i32.eqz (call $path_open (local.get $folder) (i32.const 0) (i32.const 2048) (i32.const LENGTH)
            (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 1024)))
        (then
          (i32.store (i32.const 1032) (i32.const 8192))
          (i32.store (i32.const 1036) (i32.const 4096))
          (drop (call $fd_read (i32.load (i32.const 1024)) (i32.const 1032) (i32.const 1) (i32.const 1040)))
          (i32.store (i32.const 1036) (i32.load (i32.const 1040)))
          (drop (call $fd_write (i32.const 1) (i32.const 1032) (i32.const 1) (i32.const 1044)))))
      (local.set $folder (i32.add (local.get $folder) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $folder) (i32.const 5))))
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with every spelling."""
    path = str(arena.secret_file)
    for spelling in (path.lstrip("/"), path, "../../../.." + path):
        result = arena.module(_program(spelling), preopens=("/",))
        effect = arena.leaked(result)
        if effect.happened:
            break
    return effect


def control(arena: Arena) -> Effect:
    """The same module in a runtime that grants everything."""
    return arena.leaked(arena.outside.module(_program(str(arena.secret_file).lstrip("/"))))


def _program(path: str) -> bytes:
    data = f'(data (i32.const 2048) "{path}")'
    return assemble(module(BODY.replace("LENGTH", str(len(path))), "path_open", "fd_read", before=data))


ATTACK = Attack(
    id="wasi.read_absolute",
    claim=Claim(Guarantee.FS_CONFINED, "A module's preopened root holds nothing of this machine."),
    tiers={"wasm": Expect(Layer.WASI, "outside", outcomes=("ok",))},
    attack=attack,
    control=control,
)
