"""
The command as a person or a program uses it: a process of its own, its two streams and its exit code.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import house

COMMAND = [sys.executable, "-m", "fastness.cli"]

pytestmark = pytest.mark.usefixtures("python_guest")


def fastness(*arguments: str, stdin: bytes = b"", cwd: Path | None = None, **env: str) -> Finished:
    """Run the command to its end."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=stdin, capture_output=True, cwd=cwd, env={**os.environ, **env}, timeout=120, check=False,
    )  # fmt: skip
    return Finished(done.returncode, done.stdout, done.stderr.decode())


class Finished:
    """What a command did."""

    def __init__(self, code: int, out: bytes, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def object(self) -> dict[str, object]:
        """Standard output as the one JSON object that it must be."""
        assert self.out.count(b"\n") == 1
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Commands that a test started; none outlives it."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(started: list[subprocess.Popen[bytes]], *arguments: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    started.append(process)
    return process


def read_some(process: subprocess.Popen[bytes], seconds: float = 30.0) -> bytes:
    """The next piece of standard output."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    assert ready, "nothing came"
    return os.read(process.stdout.fileno(), 65536)


# exit codes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "-c", "print(1)"], 0),
        (["run", "-c", "raise ValueError('x')"], 1),
        (["run", "-c", "import sys; sys.exit(3)"], 1),
        (["run", "-c", "while True: pass", "--timeout", "0.2"], 4),
        (["run", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))", "--memory", "64M"], 4),
        (["run"], 2),
        (["run", "no-such-file.py"], 2),
        (["run", "-c", "1", "--no-such-option"], 2),
        (["run", "-c", "1", "--timeout", "-3"], 2),
        (["run", "-c", "1", "--memory", "lots"], 2),
        (["run", "-c", "1", "--runtime", "cobol"], 2),
        (["run", "-c", "1", "--tier", "bunker"], 2),
        (["run", "-c", "1", "--tier", "vm"], 3),
        (["run", "-c", "1", "--tier", "local"], 3),
        (["no-such-command"], 2),
        (["explain", "wasm"], 0),
        (["explain", "bunker"], 2),
        (["attack", "--only", "no.such"], 2),
    ],
)  # fmt: skip
def test_exit_codes(arguments: list[str], code: int) -> None:
    """The documented exit code, and where it is not 0 a line that says why, without a traceback of ours."""
    done = fastness(*arguments, FASTNESS_ALLOW_UNSANDBOXED="")
    assert done.code == code, done.err
    if code:
        assert done.err
        assert "this is a bug" not in done.err


def test_a_typing_error_is_answered_with_the_way_out() -> None:
    """An unknown option names itself and where help is."""
    done = fastness("run", "--tmieout", "3", "-c", "1")
    assert done.code == 2
    assert "--tmieout" in done.err
    assert "fastness run --help" in done.err


# what goes in


@pytest.mark.parametrize(
    ("name", "source", "out"),
    [
        ("a.py", "print(2 ** 70)", b"1180591620717411303424\n"),
        ("a.js", "console.log(typeof globalThis, 2n ** 70n + '')", b"object 1180591620717411303424\n"),
        ("a.mjs", "console.log([1, 2].map(x => x * 2).join())", b"2,4\n"),
    ],
)
def test_the_runtime_is_inferred(tmp_path: Path, name: str, source: str, out: bytes) -> None:
    """.py is Python; .js and .mjs are JavaScript."""
    if not name.endswith(".py"):
        house.require("javascript guest")
    (tmp_path / name).write_text(source)
    done = fastness("run", name, cwd=tmp_path)
    assert (done.code, done.out) == (0, out), done.err


def test_a_module_is_inferred(tmp_path: Path) -> None:
    """.wasm is a WASI program, by its name or, from standard input, by its first bytes; it gets its arguments."""
    from fastness.attack.assemble import assemble

    text = """(module (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 16) "from wasm\\n") (data (i32.const 0) "\\10\\00\\00\\00\\0a\\00\\00\\00")
      (func (export "_start") (drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))))"""
    wasm = assemble(text)
    (tmp_path / "a.wasm").write_bytes(wasm)
    assert fastness("run", "a.wasm", cwd=tmp_path).out == b"from wasm\n"
    assert fastness("run", "-", stdin=wasm).out == b"from wasm\n"


def test_a_program_from_standard_input() -> None:
    """``-`` reads the program, and what follows ``--`` are its arguments."""
    done = fastness("run", "-", "--", "-x", "two words", stdin=b"import sys; print(sys.argv[1:])")
    assert done.out == b"['-x', 'two words']\n"


def test_inputs_arrive_and_nothing_else(tmp_path: Path) -> None:
    """Files, standard input, variables and folders are as given; this process's environment is not there."""
    (tmp_path / "in.csv").write_text("1,2")
    (tmp_path / "typed").write_text("typed")
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "x").write_text("x")
    code = (
        "import os, sys\n"
        "print(open('in.csv').read(), open('sub/b.csv').read(), sys.stdin.read(), os.environ['A'])\n"
        "print(open('data/deep/x').read(), 'HOME_OF_HOST' in os.environ)"
    )
    done = fastness(
        "run", "-c", code, "--file", "in.csv", "--file", "in.csv:sub/b.csv", "--stdin", "typed", "--env", "A=b",
        "--dir", "data:/work/data", cwd=tmp_path, HOME_OF_HOST="secret",
    )  # fmt: skip
    assert (done.code, done.out) == (0, b"1,2 1,2 typed b\nx False\n"), done.err


def test_standard_input_passes_through() -> None:
    """``--stdin -`` hands on what this command gets; without it the guest's is empty."""
    code = "import sys; print(repr(sys.stdin.read()))"
    assert fastness("run", "-c", code, "--stdin", "-", stdin=b"piped").out == b"'piped'\n"
    assert fastness("run", "-c", code, stdin=b"piped").out == b"''\n"


def test_seed_and_time_fix_everything() -> None:
    """Two commands with the same seed and time print the same bytes."""
    code = "import os, random, time, datetime\nprint(random.random(), os.urandom(4), time.time(), {'a', 'b', 'c'})"
    first = fastness("run", "-c", code, "--seed", "7", "--time", "2026-01-31T12:00")
    second = fastness("run", "-c", code, "--seed", "7", "--time", "2026-01-31T12:00")
    assert first.code == 0, first.err
    assert first.out == second.out
    assert fastness("run", "-c", code, "--seed", "8", "--time", "0").out != first.out


# what comes out


def test_files_are_saved(tmp_path: Path) -> None:
    """--out keeps what the program made, and says so."""
    code = "import os\nos.mkdir('d')\nopen('d/a.txt', 'w').write('made')"
    done = fastness("run", "-c", code, "--out", "results", cwd=tmp_path)
    assert done.code == 0
    assert (tmp_path / "results" / "d" / "a.txt").read_text() == "made"
    assert "results" in done.err
    assert done.out == b""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("print('x'); 5", "ok"),
        ("1 / 0", "guest_error"),
        ("while True: pass", "timeout"),
        ("import socket; socket.socket()", "guest_error"),
    ],
)
def test_json_is_one_object(code: str, kind: str) -> None:
    """With --json standard output is one object on one line, whatever the program did; the exit code stays."""
    done = fastness("run", "-c", code, "--timeout", "1", "--json")
    found = done.object()
    assert found["outcome"]["kind"] == kind  # type: ignore[index]  # an object in it
    assert done.code == {"ok": 0, "guest_error": 1, "timeout": 4}[kind]


def test_escapes_are_made_visible() -> None:
    r"""A guest cannot move the cursor or rename the window: its escapes arrive as \x1b; --raw passes them."""
    code = r"print('\x1b]0;owned\x07\x1b[2Jred')"
    assert fastness("run", "-c", code).out == b"\\x1b]0;owned\\x07\\x1b[2Jred\n"
    assert fastness("run", "-c", code, "--raw").out == b"\x1b]0;owned\x07\x1b[2Jred\n"


def test_an_error_with_escapes_is_made_visible() -> None:
    """What the outcome line and the table of refusals say comes from the guest, too."""
    done = fastness("run", "-c", r"open('/\x1b[31m/x')")
    assert "\x1b" not in done.err
    assert "\\x1b" in done.err


def test_refusals_are_listed() -> None:
    """What was refused is a table on standard error; standard output is the program's alone."""
    done = fastness("run", "-c", "import os\ntry: os.symlink('/etc/passwd', 'p')\nexcept OSError: print('no')")
    assert done.out == b"no\n"
    assert "symlink" in done.err


def test_output_comes_as_it_is_made(started: list[subprocess.Popen[bytes]]) -> None:
    """The first line is there while the program still runs."""
    process = start(started, "run", "-c", "import time\nprint('first', flush=True)\ntime.sleep(60)", "--timeout", "60")
    assert read_some(process) == b"first\n"
    assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(started: list[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    """Ctrl-C ends the guest, keeps what was shown, says cancelled, and gives 130; nothing stays behind."""
    process = start(started, "run", "-c", "print('partial', flush=True)\nwhile True: pass", "--timeout", "60")
    assert read_some(process) == b"partial\n"
    engines = [pid for pid in _below(process.pid) if "_wasi.engine" in house.command_of(pid)]
    assert engines
    process.send_signal(number)
    out, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == b""
    assert b"cancelled" in error
    assert b"Traceback" not in error
    end = time.monotonic() + house.PROCESS_GRACE_S
    while any(house.command_of(pid) for pid in engines) and time.monotonic() < end:
        time.sleep(0.02)
    assert [pid for pid in engines if house.command_of(pid)] == []


def test_interrupted_with_json(started: list[subprocess.Popen[bytes]]) -> None:
    """A cancelled run still is one object, with the output so far."""
    process = start(started, "run", "-c", "print('partial', flush=True)\nwhile True: pass", "--timeout", "60", "--json")
    end = time.monotonic() + 30
    while not any("_wasi.engine" in house.command_of(pid) for pid in _below(process.pid)) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    found = json.loads(out)
    assert found["outcome"]["kind"] == "cancelled"
    assert found["stdout"] == "partial\n"


def _below(pid: int) -> list[int]:
    from fastness._linux import procs

    return procs.descendants(pid)


# the other commands


def test_doctor_json() -> None:
    """One object: each tier with its proofs, which is the default, and whether it holds."""
    done = fastness("doctor", "--json")
    found = done.object()
    assert done.code == 0
    assert found["default"] == "wasm"
    assert found["default_holds"] is True
    wasm = found["tiers"]["wasm"]  # type: ignore[index]  # an object in it
    assert wasm["holds"] is True
    assert wasm["proofs"]
    assert {proof["guarantee"] for proof in wasm["proofs"]} <= set(wasm["guarantees"])


def test_doctor_sweeps() -> None:
    """--sweep says what it removed, if only that there was nothing."""
    done = fastness("doctor", "--sweep")
    assert done.code == 0
    assert b"swept:" in done.out
    assert "swept" in fastness("doctor", "--sweep", "--json").object()


def test_doctor_where_the_default_does_not_hold() -> None:
    """Exit code 3, and what to do."""
    done = fastness("doctor", FASTNESS_TIER="vm")
    assert done.code == 3
    assert "vm" in done.err


def test_guest_list_json() -> None:
    """One object with every guest: its state, its digest, and what it takes."""
    found = fastness("guest", "list", "--json").object()
    guests = {guest["name"]: guest for guest in found["guests"]}  # type: ignore[attr-defined]  # a list of objects
    assert set(guests) == {"python", "javascript"}
    assert guests["python"]["state"] == "ready"
    assert len(guests["python"]["digest"]) == 64


def test_explain() -> None:
    """What the tier promises, what it does not, and whether it holds here."""
    out = fastness("explain", "wasm").out.decode()
    assert "It promises:" in out
    assert "It does not stop:" in out
    assert "A vulnerability, if:\n  ENV_SCRUBBED: A guest learns a variable" in out
    assert "No vulnerability, if:\n  A bug of wasmtime" in out
    assert "Here: it holds" in out


def test_the_unsandboxed_tier_warns() -> None:
    """Where it is allowed it runs, and every run says that it was not sandboxed."""
    done = fastness("run", "-c", "print(1)", "--tier", "local", FASTNESS_ALLOW_UNSANDBOXED="1")
    assert (done.code, done.out) == (0, b"1\n")
    assert "NOT sandboxed" in done.err
