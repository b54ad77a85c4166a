"""Small preview 1 command modules in WebAssembly's text format."""

from __future__ import annotations

_SIGNATURES = {
    "args_get": "i32 i32",
    "args_sizes_get": "i32 i32",
    "environ_get": "i32 i32",
    "environ_sizes_get": "i32 i32",
    "fd_prestat_get": "i32 i32",
    "fd_prestat_dir_name": "i32 i32 i32",
    "fd_read": "i32 i32 i32 i32",
    "fd_write": "i32 i32 i32 i32",
    "path_open": "i32 i32 i32 i32 i32 i64 i64 i32 i32",
    "path_create_directory": "i32 i32 i32",
}


def command(body: str, *imports: str, fields: str = "", pages: int = 2, export: str = "_start") -> str:
    """
    A module whose ``_start`` is ``body``.

    At hand in it: ``(call $out (address) (length))`` writes to stdout, ``$exit`` is ``proc_exit``, the local ``$i`` is
    an i32.  Memory below 64 belongs to ``$out``.
    """
    lines = [
        f'(import "wasi_snapshot_preview1" "{name}" (func ${name} (param {_SIGNATURES[name]}) (result i32)))'
        for name in dict.fromkeys(("fd_write", *imports))
    ]
    return f"""
(module
  {" ".join(lines)}
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") {pages})
  {fields}
  (func $out (param $at i32) (param $length i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $length))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "{export}") (local $i i32) {body}))
"""


def _list(what: str) -> str:
    return command(
        f"""
        (drop (call ${what}_sizes_get (i32.const 64) (i32.const 68)))
        (drop (call ${what}_get (i32.const 128) (i32.const 65536)))
        (call $out (i32.const 65536) (i32.load (i32.const 68)))
        """,
        f"{what}_get",
        f"{what}_sizes_get",
        pages=32,
    )


#: Prints its arguments, and its variables, each with a NUL behind it.
ARGS = _list("args")
ENV = _list("environ")

#: Prints the name of each preopened folder with a newline behind it.
PREOPENS = command(
    """
    (local.set $i (i32.const 3))
    (block $done (loop $next
      (br_if $done (call $fd_prestat_get (local.get $i) (i32.const 64)))
      (drop (call $fd_prestat_dir_name (local.get $i) (i32.const 128) (i32.load (i32.const 68))))
      (i32.store8 (i32.add (i32.const 128) (i32.load (i32.const 68))) (i32.const 10))
      (call $out (i32.const 128) (i32.add (i32.load (i32.const 68)) (i32.const 1)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    """,
    "fd_prestat_get",
    "fd_prestat_dir_name",
)

#: Copies standard input to standard output.
CAT = command(
    """
    (i32.store (i32.const 64) (i32.const 1024))
    (i32.store (i32.const 68) (i32.const 4096))
    (block $done (loop $next
      (br_if $done (call $fd_read (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 72)))
      (br_if $done (i32.eqz (i32.load (i32.const 72))))
      (call $out (i32.const 1024) (i32.load (i32.const 72)))
      (br $next)))
    """,
    "fd_read",
)


def copy(source: str, target: str) -> str:
    """
    Copies at most 4096 bytes of one file to a new one, both below the first preopened folder.

    Exits with the errno of the first call that fails, plus 100 where it is the second file.
    """
    return command(
        f"""
        (local.set $i (call $path_open (i32.const 3) (i32.const 0) (i32.const 512) (i32.const {len(source)})
          (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 80)))
        (if (local.get $i) (then (call $exit (local.get $i))))
        (i32.store (i32.const 64) (i32.const 1024))
        (i32.store (i32.const 68) (i32.const 4096))
        (drop (call $fd_read (i32.load (i32.const 80)) (i32.const 64) (i32.const 1) (i32.const 72)))
        (local.set $i (call $path_open (i32.const 3) (i32.const 0) (i32.const 768) (i32.const {len(target)})
          (i32.const 1) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 84)))
        (if (local.get $i) (then (call $exit (i32.add (i32.const 100) (local.get $i)))))
        (i32.store (i32.const 68) (i32.load (i32.const 72)))
        (drop (call $fd_write (i32.load (i32.const 84)) (i32.const 64) (i32.const 1) (i32.const 88)))
        (call $out (i32.const 1024) (i32.load (i32.const 72)))
        """,
        "path_open",
        "fd_read",
        fields=f'(data (i32.const 512) "{source}") (data (i32.const 768) "{target}")',
    )


def exits(code: int) -> str:
    """Ends with ``proc_exit(code)``."""
    return command(f"(call $exit (i32.const {code}))")


def say(word: str, after: str = "") -> str:
    """Prints a word and then does something else."""
    return command(
        f"(call $out (i32.const 512) (i32.const {len(word)})) {after}", fields=f'(data (i32.const 512) "{word}")'
    )


#: What traps, under the name that the outcome's detail gives it.
TRAPS: dict[str, str] = {
    "unreachable": say("x", "(unreachable)"),
    "integer_divide_by_zero": say("x", "(drop (i32.div_s (i32.const 1) (local.get $i)))"),
    "integer_overflow": say("x", "(drop (i32.div_s (i32.const -2147483648) (i32.sub (local.get $i) (i32.const 1))))"),
    "bad_conversion_to_integer": say("x", "(drop (i32.trunc_f32_s (f32.div (f32.const 0) (f32.const 0))))"),
    "memory_out_of_bounds": say("x", "(drop (i32.load (i32.const -8)))"),
    "stack_overflow": command(
        "(call $out (i32.const 512) (i32.const 1)) (call $deep)",
        fields='(data (i32.const 512) "x") (func $deep (call $deep) (call $deep))',
    ),
    "indirect_call_to_null": command(
        "(call $out (i32.const 512) (i32.const 1)) (call_indirect (type $t) (i32.const 0))",
        fields='(data (i32.const 512) "x") (type $t (func)) (table 1 funcref)',
    ),
    "table_out_of_bounds": command(
        "(call $out (i32.const 512) (i32.const 1)) (call_indirect (type $t) (i32.const 7))",
        fields='(data (i32.const 512) "x") (type $t (func)) (table 1 funcref)',
    ),
    "bad_signature": command(
        "(call $out (i32.const 512) (i32.const 1)) (call_indirect (type $t) (i32.const 0))",
        fields=(
            '(data (i32.const 512) "x") (type $t (func)) (table 1 funcref) (elem (i32.const 0) $f) '
            "(func $f (param i64))"
        ),
    ),
}
