"""
Any preview 1 command module runs under the same host: its exit code, output, files and traps are data.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import anyio
import pytest
from wasm_support import engines_of

import fastness
import house
from fastness import OutcomeKind
from fastness._wasi import binding

_IMPORTS = """
(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_prestat_dir_name" (func $fd_prestat_dir_name (param i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_open"
  (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_symlink" (func $path_symlink (param i32 i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_unlink_file" (func $path_unlink_file (param i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
(import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
"""
_HELPERS = """
(func $say (param $fd i32) (param $at i32) (param $size i32)
  (i32.store (i32.const 65528) (local.get $at))
  (i32.store (i32.const 65532) (local.get $size))
  (drop (call $fd_write (local.get $fd) (i32.const 65528) (i32.const 1) (i32.const 65524))))
(func $must (param $errno i32)
  (if (local.get $errno) (then (call $proc_exit (i32.add (i32.const 100) (local.get $errno))))))
"""


@pytest.fixture(scope="module")
def library() -> binding.Library:
    house.require("wasmtime")
    return binding.load(binding.find_library())


@pytest.fixture
def assemble(library: binding.Library) -> Any:
    """A function from the text of ``_start`` and of what stands beside it to the bytes of a module."""

    def make(start: str, beside: str = "", memory: str = '(memory (export "memory") 2)') -> bytes:
        text = f'(module {_IMPORTS} {memory} {_HELPERS} {beside} (func (export "_start") {start}))'
        return binding.wat2wasm(library, text)

    return make


def raw(library: binding.Library, text: str) -> bytes:
    return binding.wat2wasm(library, text)


def test_output_and_good_end(box: fastness.Sandbox, assemble: Any) -> None:
    """Both streams arrive; returning from ``_start`` is a good end."""
    module = assemble(
        "(call $say (i32.const 1) (i32.const 0) (i32.const 5)) (call $say (i32.const 2) (i32.const 5) (i32.const 3))",
        '(data (i32.const 0) "hello\\ff\\00!")',
    )
    result = box.run(module=module)
    assert (result.outcome.kind, result.exit_code) == (OutcomeKind.OK, 0)
    assert (result.stdout_bytes, result.stderr_bytes) == (b"hello", b"\xff\0!")
    assert (result.runtime, result.tier, result.sandboxed) == ("wasi", "wasm", True)
    assert (result.value, result.value_repr) == (None, None)


@pytest.mark.parametrize("status", [0, 1, 3, 255, 256, 2**31, 2**32 - 1])
def test_exit_status(box: fastness.Sandbox, assemble: Any, status: int) -> None:
    """``proc_exit`` with any 32-bit status; only 0 is a good end."""
    result = box.run(module=assemble(f"(call $proc_exit (i32.const {status})) unreachable"))
    assert result.exit_code == status
    assert result.outcome.kind is (OutcomeKind.GUEST_ERROR if status else OutcomeKind.OK)
    if status:
        assert result.outcome.detail == f"exit status {status}"


def _echo(sizes: str, get: str) -> str:
    return f"""
    (call $must (call ${sizes} (i32.const 0) (i32.const 4)))
    (call $must (call ${get} (i32.const 1024) (i32.const 8192)))
    (call $say (i32.const 1) (i32.const 8192) (i32.load (i32.const 4)))
    (call $proc_exit (i32.load (i32.const 0)))
    """


def test_arguments_and_environment(box: fastness.Sandbox, assemble: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module sees the program's name, the arguments and the variables that were passed; nothing of the caller's."""
    monkeypatch.setenv("FASTNESS_TEST_SECRET", "s3cr3t")
    args = ["", "-x", "with space", "\N{SNOWMAN}"]
    result = box.run(module=assemble(_echo("args_sizes_get", "args_get")), args=args, filename="prog.wasm")
    assert result.exit_code == 5
    assert result.stdout_bytes.split(b"\0") == [b"prog.wasm", *[a.encode() for a in args], b""]
    module = assemble(_echo("environ_sizes_get", "environ_get"))
    result = box.run(module=module, env={"A": "1", "B": ""})
    assert (result.exit_code, result.stdout_bytes) == (2, b"A=1\0B=\0")
    result = box.run(module=module)
    assert (result.exit_code, result.stdout_bytes) == (0, b"")


def test_standard_input(box: fastness.Sandbox, assemble: Any) -> None:
    """What was passed can be read, to its end."""
    module = assemble(
        """
        (i32.store (i32.const 8) (i32.const 1024)) (i32.store (i32.const 12) (i32.const 3))
        (loop $more
          (call $must (call $fd_read (i32.const 0) (i32.const 8) (i32.const 1) (i32.const 16)))
          (if (i32.load (i32.const 16)) (then
            (call $say (i32.const 1) (i32.const 1024) (i32.load (i32.const 16)))
            (br $more))))
        """
    )
    assert box.run(module=module, stdin=b"\x00abcdefgh\xff").stdout_bytes == b"\x00abcdefgh\xff"
    assert box.run(module=module).stdout_bytes == b""


#: Copies /in to a new file "out" through the first preopen, removes "gone", and exits with what failed.
_COPY = """
(call $must (call $path_open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 2) (i32.const 0)
  (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))
(i32.store (i32.const 80) (i32.const 1024)) (i32.store (i32.const 84) (i32.const 100))
(call $must (call $fd_read (i32.load (i32.const 64)) (i32.const 80) (i32.const 1) (i32.const 88)))
(call $must (call $path_open (i32.const 3) (i32.const 0) (i32.const 2) (i32.const 3) (i32.const 9)
  (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 68)))
(i32.store (i32.const 84) (i32.load (i32.const 88)))
(call $must (call $fd_write (i32.load (i32.const 68)) (i32.const 80) (i32.const 1) (i32.const 92)))
(call $must (call $path_unlink_file (i32.const 3) (i32.const 5) (i32.const 4)))
"""
_COPY_DATA = '(data (i32.const 0) "inoutgone")'


@pytest.mark.parametrize("preopens", [None, ("/",), (".",), ("/work",)])
def test_files_in_and_out(box: fastness.Sandbox, assemble: Any, preopens: tuple[str, ...] | None) -> None:
    """Staged files are below the first preopen; what the module makes and removes there is in the result."""
    result = box.run(
        module=assemble(_COPY, _COPY_DATA), preopens=preopens, files={"in": b"data\xff", "gone": b"x", "d/same": b"y"}
    )
    assert (result.outcome.kind, result.exit_code) == (OutcomeKind.OK, 0), result.outcome
    assert {path: file.read() for path, file in result.files.items()} == {"out": b"data\xff"}
    assert (result.changes.added, result.changes.deleted) == (("out",), ("gone",))


def test_files_below_a_named_preopen(box: fastness.Sandbox, assemble: Any) -> None:
    """A preopen of another name is the folder of that name."""
    result = box.run(
        module=assemble(_COPY, _COPY_DATA), preopens=("data/in",), files={"data/in/in": "1", "data/in/gone": "2"}
    )
    assert result.exit_code == 0
    assert result.files["data/in/out"].read() == b"1"


_PRESTATS = """
(local $fd i32) (local.set $fd (i32.const 3))
(loop $next
  (if (i32.eqz (call $fd_prestat_get (local.get $fd) (i32.const 0))) (then
    (call $must (call $fd_prestat_dir_name (local.get $fd) (i32.const 1024) (i32.load (i32.const 4))))
    (i32.store8 (i32.add (i32.const 1024) (i32.load (i32.const 4))) (i32.const 10))
    (call $say (i32.const 1) (i32.const 1024) (i32.add (i32.const 1) (i32.load (i32.const 4))))
    (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
    (br $next))))
"""


@pytest.mark.parametrize(
    ("preopens", "names"), [(None, "/\n/work\n"), ((), ""), (("/",), "/\n"), (("a", "/b/c", "."), "a\n/b/c\n.\n")]
)
def test_preopens(box: fastness.Sandbox, assemble: Any, preopens: Any, names: str) -> None:
    """Exactly the folders that were named are open, in their order; none means none."""
    assert box.run(module=assemble(_PRESTATS), preopens=preopens).stdout == names


def test_nothing_open(box: fastness.Sandbox, assemble: Any) -> None:
    """Without a preopen no path can be named."""
    result = box.run(module=assemble(_COPY, _COPY_DATA), preopens=(), files={"in": "1"})
    assert result.exit_code == 100 + 8  # badf


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "//etc/passwd"])
def test_paths_that_lead_out(box: fastness.Sandbox, assemble: Any, path: str) -> None:
    """A path above a preopen is refused and recorded, whatever exists on the host."""
    open_it = f"""(call $must (call $path_open (i32.const 3) (i32.const 1) (i32.const 0) (i32.const {len(path)})
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))"""
    result = box.run(module=assemble(open_it, f'(data (i32.const 0) "{path}")'), files={"a/f": "1"})
    assert result.exit_code in (100 + 76, 100 + 63, 100 + 44)
    assert any(row.operation == "path_open" and not row.claimed for row in result.denials) or result.exit_code == 144


def test_links_are_refused(box: fastness.Sandbox, assemble: Any) -> None:
    """``path_symlink`` is a recorded refusal here too."""
    start = "(drop (call $path_symlink (i32.const 0) (i32.const 1) (i32.const 3) (i32.const 1) (i32.const 1)))"
    result = box.run(module=assemble(start, '(data (i32.const 0) "ab")'))
    assert result.ok
    assert [(row.operation, row.code.value, row.claimed) for row in result.denials] == [
        ("path_symlink", "wasi_refused", False)
    ]


def test_determinism(box: fastness.Sandbox, assemble: Any) -> None:
    """Seed and time fix what a module draws and what its clocks say."""
    start = """
    (call $must (call $random_get (i32.const 0) (i32.const 32)))
    (call $must (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 32)))
    (call $must (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 40)))
    (call $say (i32.const 1) (i32.const 0) (i32.const 48))
    """
    module = assemble(start)
    one, two = (box.run(module=module, seed=7, time=1e9).stdout_bytes for _ in range(2))
    assert one == two
    assert int.from_bytes(one[32:40], "little") == 10**18
    assert box.run(module=module, seed=8, time=1e9).stdout_bytes[:32] != one[:32]
    three, four = (box.run(module=module).stdout_bytes for _ in range(2))
    assert three[:32] != four[:32]


# traps

_TRAPS = {
    "unreachable": "unreachable",
    "integer_divide_by_zero": "(drop (i32.div_s (i32.const 1) (i32.const 0)))",
    "integer_overflow": "(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))",
    "bad_conversion_to_integer": "(drop (i32.trunc_f32_s (f32.const nan)))",
    "memory_out_of_bounds": "(drop (i32.load (i32.const -4)))",
    "stack_overflow": "(call $deep)",
    "table_out_of_bounds": "(drop (table.get $t (i32.const 99)))",
    "indirect_call_to_null": "(call_indirect $t (i32.const 0))",
    "bad_signature": "(drop (call_indirect $t (result i32) (i32.const 1)))",
}
_TRAP_BESIDE = "(table $t 2 funcref) (elem (i32.const 1) $deep) (func $deep (call $deep) (call $deep))"


@pytest.mark.parametrize("name", list(_TRAPS))
def test_traps_have_their_names(box: fastness.Sandbox, assemble: Any, name: str) -> None:
    """A trap is ``crashed`` with its name; output, files and denials until then are kept; the next run works."""
    before = """
    (call $say (i32.const 1) (i32.const 0) (i32.const 2))
    (drop (call $path_symlink (i32.const 0) (i32.const 1) (i32.const 3) (i32.const 1) (i32.const 1)))
    (call $must (call $path_open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 1)
      (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)))
    """
    module = assemble(before + _TRAPS[name], _TRAP_BESIDE + '(data (i32.const 0) "ab")')
    for _ in range(2):
        result = box.run(module=module)
        assert (result.outcome.kind, result.outcome.detail) == (OutcomeKind.CRASHED, name)
        assert result.exit_code is None
        assert result.stdout == "ab"
        assert list(result.files) == ["a"]
        assert result.denials
    with pytest.raises(fastness.GuestError):
        result.raise_for_outcome()


def test_endless_loop(box: fastness.Sandbox, assemble: Any) -> None:
    """Time is up for modules too."""
    result = box.run(module=assemble("(loop $l (br $l))"), timeout=0.3)
    assert result.outcome.kind is OutcomeKind.TIMEOUT


def test_start_function_is_bounded_too(box: fastness.Sandbox, library: binding.Library) -> None:
    """Code that runs while the module is instantiated has the same deadline, and its traps are the module's own."""
    loop = '(module (memory (export "memory") 1) (func $s (loop $l (br $l))) (start $s) (func (export "_start")))'
    result = box.run(module=raw(library, loop), timeout=0.5)
    assert result.outcome.kind is OutcomeKind.TIMEOUT
    trap = '(module (memory (export "memory") 1) (func $s unreachable) (start $s) (func (export "_start")))'
    result = box.run(module=raw(library, trap))
    assert (result.outcome.kind, result.outcome.detail) == (OutcomeKind.CRASHED, "unreachable")
    far = '(module (memory (export "memory") 1) (data (i32.const 65536) "x") (func (export "_start")))'
    assert box.run(module=raw(library, far)).outcome.kind is OutcomeKind.CRASHED


def test_memory_cap(box: fastness.Sandbox, assemble: Any) -> None:
    """Growing past the cap fails inside the guest; a module that starts larger than it gets ``memory``."""
    grow = "(call $proc_exit (i32.eq (memory.grow (i32.const 4000)) (i32.const -1)))"
    assert box.run(module=assemble(grow), memory="64M").exit_code == 1
    assert box.run(module=assemble(grow), memory="512M").exit_code == 0
    result = box.run(module=assemble("", memory='(memory (export "memory") 4000)'), memory="64M")
    assert result.outcome.kind is OutcomeKind.MEMORY
    with pytest.raises(fastness.LimitExceeded):
        result.raise_for_outcome()


def test_output_and_disk_caps(box: fastness.Sandbox, assemble: Any) -> None:
    """The output cap ends a module; a full disk is an error that it may look at."""
    flood = "(loop $l (call $say (i32.const 1) (i32.const 0) (i32.const 4096)) (br $l))"
    result = box.run(module=assemble(flood), limits={"output_total_bytes": 10_000})
    assert (result.outcome.kind, len(result.stdout_bytes)) == (OutcomeKind.OUTPUT_LIMIT, 10_000)
    result = box.run(module=assemble(_COPY, _COPY_DATA), files={"in": b"x" * 60}, limits={"file_bytes": 100})
    assert result.exit_code == 100 + 51  # nospc


def test_table_growth_is_capped(box: fastness.Sandbox, assemble: Any) -> None:
    """A table does not grow for ever either: a billion references would be host memory."""
    beside = "(table $t 0 funcref)"
    start = "(loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 100000)) (i32.const -1))))"
    result = box.run(
        module=assemble(start + "(call $proc_exit (i32.gt_u (table.size $t) (i32.const 20000000)))", beside)
    )
    assert (result.outcome.kind, result.exit_code) == (OutcomeKind.OK, 0)


# modules that are refused

_HEAD = '(memory (export "memory") 1) (func (export "_start"))'
_REFUSED = {
    "no _start": "(module)",
    "a _start that is no function": '(module (memory (export "_start") 1))',
    "a _start with parameters": '(module (func (export "_start") (param i32)))',
    "a _start with results": '(module (func (export "_start") (result i32) (i32.const 1)))',
    "a foreign import": f'(module (import "env" "system" (func (param i32))) {_HEAD})',
    "an unknown call": f'(module (import "wasi_snapshot_preview1" "exec" (func)) {_HEAD})',
    "a call of another type": f'(module (import "wasi_snapshot_preview1" "fd_close" (func)) {_HEAD})',
    "an imported memory": '(module (import "env" "memory" (memory 1)) (func (export "_start")))',
    "an imported global": f'(module (import "env" "g" (global i32)) {_HEAD})',
    "an imported table": f'(module (import "env" "t" (table 1 funcref)) {_HEAD})',
    "memory64": '(module (memory (export "memory") i64 1) (func (export "_start")))',
    "two memories": f"(module {_HEAD} (memory 1))",
    "shared memory": '(module (memory (export "memory") 1 2 shared) (func (export "_start")))',
    "threads": f"(module {_HEAD} (func (drop (memory.atomic.notify (i32.const 0) (i32.const 0)))))",
    "a tail call": f"(module {_HEAD} (func $f (return_call $f)))",
    "a component": "(component)",
    "too many globals": f"(module {_HEAD} {'(global i32 (i32.const 0))' * 10_001})",
    "too many tables": f"(module {_HEAD} {'(table 1 funcref)' * 17})",
    "a huge table": f"(module {_HEAD} (table 2000000 funcref))",
}


@pytest.mark.parametrize("what", list(_REFUSED))
def test_modules_that_are_refused(box: fastness.Sandbox, library: binding.Library, what: str) -> None:
    """What is no plain preview 1 command, or uses what is off, is the caller's mistake; nothing runs."""
    try:
        module = raw(library, _REFUSED[what])
    except binding.WasmtimeError as error:
        pytest.fail(f"the test's own text does not assemble: {error}")
    if what == "a tail call":
        # Tail calls are harmless and part of WebAssembly 3.0: run or refused, but cleanly.
        try:
            assert box.run(module=module).ok
        except fastness.ConfigurationError as error:
            assert error.field == "module"
        return
    with pytest.raises(fastness.ConfigurationError) as caught:
        box.run(module=module)
    assert caught.value.field == "module"
    assert caught.value.allowed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0asm",
        b"\0asm\1\0\0",
        b"\0asm\2\0\0\0",
        b"\x7fELF" + bytes(100),
        b"print(1)",
        b"(module)",
        b"\0asm\1\0\0\0" + b"\xff" * 100,
        b"\0asm\1\0\0\0\1\xff\xff\xff\xff\x0f",
        b"\0asm\1\0\0\0\x0a\x05\xff\xff\xff\xff\x0f",
        os.urandom(1000),
    ],
    ids=range(12),
)
def test_bytes_that_are_no_module(box: fastness.Sandbox, data: bytes) -> None:
    """Anything else is refused by name; nothing of it reaches an engine."""
    with pytest.raises(fastness.ConfigurationError) as caught:
        box.run(module=data)
    assert caught.value.field == "module"


def test_cut_and_changed_modules(box: fastness.Sandbox, assemble: Any) -> None:
    """A module cut anywhere, or with any byte changed, is refused or runs; the caller and its engines live on."""
    whole = assemble("(call $say (i32.const 1) (i32.const 0) (i32.const 2))", '(data (i32.const 0) "hi")')
    for at in range(0, len(whole), max(1, len(whole) // 12)):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]):
            try:
                result = box.run(module=data, timeout=5)
            except fastness.ConfigurationError:
                continue
            assert result.outcome.kind in OutcomeKind
    assert box.run(module=whole).stdout == "hi"


def test_size_cap(box: fastness.Sandbox) -> None:
    """64 MiB are the most; the size is looked at first."""
    with pytest.raises(fastness.ConfigurationError) as caught:
        box.run(module=bytes((64 << 20) + 1))
    assert caught.value.field == "module" and "bytes" in str(caught.value)


def _leb(value: int) -> bytes:
    out = b""
    while True:
        byte, value = value & 0x7F, value >> 7
        if not value:
            return out + bytes([byte])
        out += bytes([byte | 0x80])


def _section(number: int, data: bytes) -> bytes:
    return bytes([number]) + _leb(len(data)) + data


def test_compile_bomb(box: fastness.Sandbox) -> None:
    """
    A module that compilers choke on is ended by the compiler process's own limits, and is the module's fault.

    One function of some megabytes with a branch table in every line: its compilation takes far more memory or time
    than its size suggests.
    """
    lines = 3000
    targets = 500
    body = b"\x00" + b"\x02\x40" * targets
    table = b"\x20\x00\x0e" + _leb(targets) + b"".join(_leb(i) for i in range(targets)) + b"\x00"
    body += (b"\x02\x40" + table + b"\x0b") * lines + b"\x0b" * targets + b"\x0b"
    module = (
        b"\0asm\1\0\0\0"
        + _section(1, b"\x02\x60\x00\x00\x60\x01\x7f\x00")
        + _section(3, b"\x02\x00\x01")
        + _section(7, b"\x01\x06_start\x00\x00")
        + _section(10, b"\x02\x02\x00\x0b" + _leb(len(body)) + body)
    )
    assert len(module) < 4 << 20
    before = engines_of(os.getpid())
    try:
        result = box.run(module=module, timeout=5)
        assert result.outcome.kind is OutcomeKind.OK
    except fastness.ConfigurationError as error:
        assert error.field == "module"
    assert box.run("1").value == 1
    assert engines_of(os.getpid()) >= before & engines_of(os.getpid())


def test_cancelling_a_compilation(python_guest: None, assemble: Any) -> None:
    """Cancelling while the module compiles ends the compiler; the sandbox goes on."""
    functions = "".join(
        f"(func $f{i} (param i32) (result i32) (local i32) "
        + "(local.set 1 (i32.add (i32.mul (local.get 0) (local.get 1)) (i32.const 7)))" * 60
        + "(local.get 1))"
        for i in range(3000)
    )
    module = assemble("", functions)

    async def main() -> None:
        async with fastness.AsyncSandbox(engines=1) as box:
            with anyio.move_on_after(0.1):
                await box.run(module=module)
            assert (await box.run("1")).value == 1

    anyio.run(main)


def test_each_run_is_a_new_instance(box: fastness.Sandbox, assemble: Any) -> None:
    """Memory, globals and tables of one run are not there in the next; nor are its files."""
    start = """
    (i32.store8 (i32.const 48) (i32.add (i32.load8_u (i32.const 48)) (i32.const 1)))
    (global.set $g (i32.add (global.get $g) (i32.const 1)))
    (i32.store8 (i32.const 49) (i32.add (global.get $g) (i32.const 48)))
    (call $say (i32.const 1) (i32.const 48) (i32.const 2))
    """
    module = assemble(start, '(global $g (mut i32) (i32.const 0)) (data (i32.const 48) "0")')
    assert [box.run(module=module).stdout for _ in range(5)] == ["11"] * 5


def test_modules_and_tenants_do_not_share_engines(own_box: fastness.Sandbox, assemble: Any) -> None:
    """Each module and tenant has engines of its own, never more at once than the sandbox may have."""
    digests = set()
    for number in range(6):
        module = assemble(f"(call $proc_exit (i32.const {number}))")
        digests.add(hashlib.sha256(module).hexdigest())
        for tenant in ("a", "b"):
            assert own_box.run(module=module, tenant=tenant).exit_code == number
            backend: Any = own_box._inner._runner._backends["wasm"]
            assert len(backend.engine_pids()) <= 2
    assert len(digests) == 6


def test_entry_with_a_module(box: fastness.Sandbox, assemble: Any, tmp_path: Any) -> None:
    """A file that ends in .wasm is a module; its name is the program's name."""
    (tmp_path / "prog.wasm").write_bytes(assemble(_echo("args_sizes_get", "args_get")))
    result = box.run(entry=tmp_path / "prog.wasm", args=["x"])
    assert result.stdout_bytes == b"prog.wasm\0x\0"
    with pytest.raises(fastness.ConfigurationError):
        box.run(entry=tmp_path / "prog.wasm", runtime="python")
