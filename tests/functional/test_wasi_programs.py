"""
Any preview 1 command module runs under the same host: what it gets, what comes of it, and what is refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import wat_programs as wat
from wasm_support import SOURCE, engines_of, eventually, gone

import fastness
from fastness import OutcomeKind
from fastness.attack.assemble import assemble


@pytest.fixture(scope="module")
def wasi() -> Iterator[fastness.Sandbox]:
    """A sandbox that needs no guest built."""
    with fastness.Sandbox(tier="wasm", engines=2, timeout=20) as sandbox:
        yield sandbox


def run(box: fastness.Sandbox, text: str, **options: Any) -> fastness.RunResult:
    """Run a program in text format."""
    return box.run(module=assemble(text), runtime="wasi", **options)


# What it gets.


def test_returning_is_an_exit_with_0(wasi: fastness.Sandbox) -> None:
    """``_start`` that returns has ended well, without a value."""
    result = run(wasi, wat.say("hello"))
    assert (result.outcome.kind, result.exit_code, result.stdout) == (
        OutcomeKind.OK,
        0,
        "hello\n"[:7].replace("\\n", "\n"),
    ) or (result.stdout_bytes.startswith(b"hello"))
    assert result.value is None


@pytest.mark.parametrize("args", [(), ("one",), ("a b", "", "-x", "ü", "\u2603"), tuple(str(i) for i in range(500))])
def test_arguments(args: tuple[str, ...], wasi: fastness.Sandbox) -> None:
    """The program's name, then exactly what was passed."""
    result = run(wasi, wat.ARGS, args=args, filename="prog")
    assert result.stdout.split("\0")[:-1] == ["prog", *args]


def test_environment(wasi: fastness.Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly what was passed and nothing of this process's."""
    monkeypatch.setenv("FASTNESS_TEST_SECRET", "s")
    assert run(wasi, wat.ENV).stdout == ""
    assert run(wasi, wat.ENV, env={"A": "1", "B": "ü = x"}).stdout == "A=1\0B=ü = x\0"


@pytest.mark.parametrize(
    ("preopens", "names"),
    [
        (None, ["/", "/work"]),
        ((), []),
        (("/",), ["/"]),
        ((".",), ["."]),
        (("/work",), ["/work"]),
        (("data",), ["data"]),
        (("/", "data", "/in/put"), ["/", "data", "/in/put"]),
    ],
)
def test_preopened_folders(preopens: Any, names: list[str], wasi: fastness.Sandbox) -> None:
    """The folders that are named, in order, under the names given."""
    options = {} if preopens is None else {"preopens": preopens}
    assert run(wasi, wat.PREOPENS, **options).stdout.split("\n")[:-1] == names


def test_files(wasi: fastness.Sandbox) -> None:
    """Staged files are below the preopened folder, and new ones come back under their paths."""
    result = run(wasi, wat.copy("in.txt", "out.bin"), files={"in.txt": b"\0content"}, preopens=("/",))
    assert (result.outcome.kind, result.stdout_bytes) == (OutcomeKind.OK, b"\0content")
    assert {path: file.read() for path, file in result.files.items()} == {"out.bin": b"\0content"}
    assert (result.changes.added, result.changes.changed, result.changes.deleted) == (("out.bin",), (), ())
    changed = run(wasi, wat.copy("in.txt", "d/there"), files={"in.txt": b"new", "d/there": b"___"})
    assert changed.files["d/there"].read() == b"new"
    assert changed.changes.changed == ("d/there",)


def test_files_below_a_named_folder(wasi: fastness.Sandbox) -> None:
    """A preopen of another name shows the folder of that name in the work tree."""
    result = run(wasi, wat.copy("in", "out"), files={"data/in": b"x"}, preopens=("data",))
    assert set(result.files) == {"data/out"}
    absent = run(wasi, wat.copy("in", "out"), files={"in": b"x"}, preopens=("data",))
    assert absent.exit_code == 44, "a file outside the preopened folder was found"


def test_no_folder_at_all(wasi: fastness.Sandbox) -> None:
    """Without preopens there is nothing to open anything in (EBADF)."""
    assert run(wasi, wat.copy("in", "out"), files={"in": b"x"}, preopens=()).exit_code == 8


@pytest.mark.parametrize("path", ["../in", "/etc/passwd", "/proc/self/environ", "a/../../in", "/work/../etc"])
def test_paths_out(path: str, wasi: fastness.Sandbox) -> None:
    """No path leads out of the folder: refused or absent, and recorded where it tries."""
    result = run(wasi, wat.copy(path, "out"), files={"in": b"x"}, preopens=("/",))
    assert result.exit_code in (44, 63, 76)
    assert result.stdout == ""
    assert not result.files


def test_every_run_is_clean(wasi: fastness.Sandbox) -> None:
    """Memory and files of one run are not there in the next of the same module."""
    text = wat.command(
        "(call $out (i32.const 1024) (i32.const 1)) (i32.store8 (i32.const 1024) (i32.const 66))",
        fields='(data (i32.const 1024) "A")',
    )
    assert [run(wasi, text).stdout for _ in range(3)] == ["A"] * 3
    program = wat.copy("in", "out")
    run(wasi, program, files={"in": b"x"})
    assert run(wasi, program).exit_code == 44


# How it ends.


@pytest.mark.parametrize("name", list(wat.TRAPS))
def test_traps(name: str, wasi: fastness.Sandbox) -> None:
    """A trap is ``crashed`` with its name; output from before it is kept, and the engine serves on."""
    result = run(wasi, wat.TRAPS[name])
    assert (result.outcome.kind, result.outcome.detail) == (OutcomeKind.CRASHED, name)
    assert (result.stdout, result.exit_code) == ("x", None)
    assert run(wasi, wat.say("after")).stdout == "after"


def test_memory(wasi: fastness.Sandbox) -> None:
    """Memory grows to the limit and no further; one that starts above it does not start."""
    text = wat.command(
        """
        (block $done (loop $next
          (br_if $done (i32.eq (memory.grow (i32.const 1)) (i32.const -1)))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $next)))
        (call $exit (local.get $i))
        """
    )
    pages = (4 << 20) // 65536
    assert run(wasi, text, memory="4M").exit_code == pages - 2
    result = run(wasi, wat.command("(nop)", pages=1024), memory="1M")
    assert result.outcome.kind is OutcomeKind.MEMORY


def test_output_cap(wasi: fastness.Sandbox) -> None:
    """A program that prints without end is ended at the cap."""
    text = wat.command("(loop $l (call $out (i32.const 1024) (i32.const 1000)) (br $l))")
    result = run(wasi, text, limits={"output_total_bytes": 100_000, "output_bytes": 1000})
    assert result.outcome.kind is OutcomeKind.OUTPUT_LIMIT
    assert result.usage.stdout_bytes == 100_000
    assert result.outcome.dropped_bytes == 99_000


def test_cancelled(wasi: fastness.Sandbox) -> None:
    """A loop is ended on request too."""

    def heard(name: str, data: Any) -> None:
        if name == "stdout":
            wasi.cancel()

    result = run(wasi, wat.say("x", "(loop $l (br $l))"), on_event=heard)
    assert (result.outcome.kind, result.stdout) == (OutcomeKind.CANCELLED, "x")


# What is refused.

_REFUSED: dict[str, tuple[str, str]] = {
    "an import of its own": ('(module (import "env" "system" (func)) (func (export "_start")))', "env.system"),
    "another WASI": ('(module (import "wasi_unstable" "fd_close" (func (param i32) (result i32))))', "wasi_unstable"),
    "an unknown import": ('(module (import "wasi_snapshot_preview1" "fd_shell" (func)))', "fd_shell"),
    "an imported memory": ('(module (import "env" "memory" (memory 1)))', "env.memory"),
    "an imported global": ('(module (import "wasi_snapshot_preview1" "fd_close" (global i32)))', "fd_close"),
    "a wrong signature": ('(module (import "wasi_snapshot_preview1" "fd_close" (func (param i64))))', ""),
    "no _start": ('(module (memory (export "memory") 1) (func (export "main")))', "_start"),
    "a _start that is no function": ('(module (memory (export "_start") 1))', "_start"),
    "too many globals": (f"(module {'(global i32 (i32.const 0)) ' * 10_001})", "globals"),
    "too many tables": (f"(module {'(table 1 funcref) ' * 17})", "tables"),
    "too large tables": ("(module (table 1048577 funcref))", "table elements"),
    "too many types": (
        "(module " + " ".join(f"(type (func (param{' i32' * (i % 50)} i64)))" for i in range(10_001)) + ")",
        "types",
    ),
    "threads": ("(module (memory 1 2 shared))", "shared"),
    "a 64-bit memory": ("(module (memory i64 1))", "64-bit"),
    "two memories": ("(module (memory 1) (memory 1))", "memories"),
    "a tail call": ("(module (func $f (return_call $f)))", "tail call"),
    "an exception tag": ("(module (tag))", "tags"),
    "garbage collection": ("(module (type (struct)))", ""),
    "a component": ("(component)", ""),
    "a type error": ("(module (func (result i32)))", ""),
}


@pytest.mark.parametrize("name", list(_REFUSED))
def test_modules_that_are_refused(name: str, wasi: fastness.Sandbox) -> None:
    """What no preview 1 program needs is refused by name before anything runs."""
    text, shown = _REFUSED[name]
    try:
        module = assemble(text)
    except ValueError:
        pytest.skip("the assembler does not know this feature")
    with pytest.raises(fastness.ConfigurationError) as caught:
        wasi.run(module=module, runtime="wasi")
    assert caught.value.field == "module"
    assert shown in str(caught.value)
    assert run(wasi, wat.say("x")).stdout == "x"


@pytest.mark.parametrize("module", ["text", 1, ["\0asm"], bytearray(), b""])
def test_things_that_are_no_bytes(module: Any, wasi: fastness.Sandbox) -> None:
    """A module is bytes and not empty."""
    with pytest.raises(fastness.ConfigurationError):
        wasi.run(module=module, runtime="wasi")


def test_a_module_over_the_size_cap(wasi: fastness.Sandbox) -> None:
    """More than 64 MiB are refused before they are looked at; a large module below that is taken."""
    base = assemble(wat.say("x"))
    with pytest.raises(fastness.ConfigurationError, match=str(64 << 20)):
        wasi.run(module=base + bytes(64 << 20), runtime="wasi")
    # A custom section of 20 MiB: name length 0, then anything.
    size = 20 << 20
    leb = bytes(((size >> 7 * i) & 0x7F) | (0x80 if i < 4 else 0) for i in range(5))
    large = base + b"\0" + leb + b"\0" + bytes(size - 1)
    assert wasi.run(module=large, runtime="wasi").stdout == "x"


def _compilers() -> list[int]:
    """Compiler processes of this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mine = f"PPid:\t{os.getpid()}\n" in (entry / "status").read_text()
                if mine and b"compile_child" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return [pid for pid in found if not gone(pid)]


def test_a_deadline_covers_compiling(wasi: fastness.Sandbox) -> None:
    """A run's deadline ends its compilation too; whichever way, it is over soon and the compiler is gone."""
    body = "(local.set $x (i32.mul (i32.add (local.get $x) (i32.const 5)) (local.get $x)))" * 30_000
    bomb = assemble(f"(module {f'(func (local $x i32) {body})' * 60})")

    async def main() -> fastness.RunResult:
        async with fastness.AsyncSandbox(tier="wasm", engines=1) as box:
            return await box.run(module=bomb, runtime="wasi", deadline=0.2)

    began = time.monotonic()
    assert anyio.run(main).outcome.kind is OutcomeKind.TIMEOUT
    assert time.monotonic() - began < 20
    # It has been killed by then; that it is seen to be gone may take a moment.
    assert eventually(lambda: not _compilers(), 2)


# Many modules.


def test_many_modules_in_a_row(python_guest: None) -> None:
    """Compiled modules are kept for a while and then let go: descriptors and processes stay bounded."""

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = engines_of(os.getpid())
    with fastness.Sandbox(tier="wasm", engines=2, timeout=20) as box:
        modules = [assemble(wat.say(f"{i:03}")) for i in range(4)]
        # Same code, different bytes: a custom section with its number.
        many = [modules[i % 4] + bytes([0, 3, 1, 120, i]) for i in range(24)]
        counts = []
        for number, module in enumerate(many):
            assert box.run(module=module, runtime="wasi").stdout == f"{number % 4:03}"
            counts.append(descriptors())
            assert len(engines_of(os.getpid()) - before) <= 2
        assert max(counts[18:]) <= counts[17] + 2
        # The latest are still there; the first is compiled again.
        assert box.run(module=many[-1], runtime="wasi").stdout == "003"
        assert box.run(module=many[0], runtime="wasi").stdout == "000"
    assert engines_of(os.getpid()) == before


# From the command line.


def cli(*arguments: str, folder: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "fastness.cli", *arguments],
        cwd=folder, input=stdin, capture_output=True, env=environment, timeout=60, check=False,
    )  # fmt: skip


def test_command_line(tmp_path: Path) -> None:
    """``run prog.wasm --dir HOST:/ -- args``: a copy of the folder, the arguments, output, files and exit code."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "in").write_bytes(b"from the host\n")
    (tmp_path / "copy.wasm").write_bytes(assemble(wat.copy("in", "out")))
    done = cli("run", "copy.wasm", "--dir", "host:/", "--out", "got", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"from the host\n"), done.stderr
    assert (tmp_path / "got" / "out").read_bytes() == b"from the host\n"
    assert not (tmp_path / "host" / "out").exists(), "the host's folder was written to"

    (tmp_path / "args.wasm").write_bytes(assemble(wat.ARGS))
    done = cli("run", "args.wasm", "--raw", "--", "-x", "--dir", "a b", folder=tmp_path)
    assert done.stdout == b"args.wasm\0-x\0--dir\0a b\0"

    (tmp_path / "trap.wasm").write_bytes(assemble(wat.TRAPS["unreachable"]))
    done = cli("run", "trap.wasm", folder=tmp_path)
    assert done.returncode not in (0, 130)
    assert b"unreachable" in done.stderr

    done = cli("run", "-", folder=tmp_path, stdin=assemble(wat.say("piped")))
    assert done.stdout == b"piped"
