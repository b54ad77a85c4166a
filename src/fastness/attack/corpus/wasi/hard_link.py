"""
Makes a hard link by the system interface's own call and opens it.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    (drop (call $path_link (i32.const 3) (i32.const 0) (i32.const 2048) (i32.const LENGTH)
      (i32.const 3) (i32.const 1040) (i32.const 4)))
    (if (i32.eqz (call $path_open (i32.const 3) (i32.const 0) (i32.const 1040) (i32.const 4)
          (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 1024)))
      (then
        (i32.store (i32.const 1032) (i32.const 8192))
        (i32.store (i32.const 1036) (i32.const 4096))
        (drop (call $fd_read (i32.load (i32.const 1024)) (i32.const 1032) (i32.const 1) (i32.const 1048)))
        (i32.store (i32.const 1036) (i32.load (i32.const 1048)))
        (drop (call $fd_write (i32.const 1) (i32.const 1032) (i32.const 1) (i32.const 1052)))))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.leaked(arena.module(_module(str(arena.secret_file)), preopens=("/",)))


def control(arena: Arena) -> Effect:
    """The same module in a runtime that gives it the folder that the file is in."""
    grants = f"wasi.preopen_dir({str(arena.folder)!r}, '/')"
    return arena.leaked(arena.outside.module(_module(arena.secret_file.name), grants=grants))


def _module(path: str) -> bytes:
    data = f'(data (i32.const 2048) "{path}") (data (i32.const 1040) "link")'
    body = BODY.replace("LENGTH", str(len(path)))
    return assemble(module(body, "path_link", "path_open", "fd_read", before=data))


ATTACK = Attack(
    id="wasi.hard_link",
    claim=Claim(Guarantee.FS_CONFINED, "Modules cannot make hard links."),
    tiers={"wasm": Expect(Layer.WASI, "wasi_refused", outcomes=("ok",))},
    attack=attack,
    control=control,
)
