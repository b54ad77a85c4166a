"""
Shared pieces of the modules in this family: preview 1 imports by name, and a way to say a word.
"""

from __future__ import annotations

_SIGNATURES = {
    "fd_write": "i32 i32 i32 i32",
    "fd_read": "i32 i32 i32 i32",
    "fd_readdir": "i32 i32 i32 i64 i32",
    "random_get": "i32 i32",
    "poll_oneoff": "i32 i32 i32 i32",
    "path_open": "i32 i32 i32 i32 i32 i64 i64 i32 i32",
    "fd_close": "i32",
    "fd_renumber": "i32 i32",
    "path_link": "i32 i32 i32 i32 i32 i32 i32",
    "path_symlink": "i32 i32 i32 i32 i32",
    "sock_accept": "i32 i32 i32",
    "sock_recv": "i32 i32 i32 i32 i32 i32",
    "sock_send": "i32 i32 i32 i32 i32",
    "sock_shutdown": "i32 i32",
    "args_sizes_get": "i32 i32",
    "environ_get": "i32 i32",
    "environ_sizes_get": "i32 i32",
}


def module(body: str, *imports: str, pages: int = 2, word: str = "SURVIVED", before: str = "") -> str:
    """
    A command module whose ``_start`` is ``body``; ``(call $say)`` in it prints ``word``.

    Memory below 1024 belongs to ``$say``; ``before`` stands among the module's own fields.
    """
    names = dict.fromkeys(("fd_write", *imports))
    lines = [
        f'(import "wasi_snapshot_preview1" "{name}" (func ${name} (param {_SIGNATURES[name]}) (result i32)))'
        for name in names
    ]
    return f"""
(module
  {"".join(line + chr(10) + "  " for line in lines)}
  (memory (export "memory") {pages})
  (data (i32.const 64) "{word}\\n")
  {before}
  (func $say
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const {len(word) + 1}))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (func (export "_start") {body})
)
"""
