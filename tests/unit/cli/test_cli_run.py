"""`fastness run` with a fake backend: what reaches the API, what reaches the terminal, and the exit code."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastness import sync
from fastness.backends.base import Report
from fastness.cli.main import main
from fastness.errors import BackendError
from fastness.runs import Denial, DenialCode, File, Files, Outcome, OutcomeKind
from fastness.testing import FakeBackend

Run = Callable[..., int]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """The command's sandboxes use this backend."""
    fake = FakeBackend()
    real = sync.AsyncSandbox
    monkeypatch.setattr(sync, "AsyncSandbox", lambda **options: real(**options, _make=lambda tier: fake))
    return fake


def _answer(backend: FakeBackend, **fields: Any) -> None:
    backend._answers.append(Report(**{"outcome": Outcome(OutcomeKind.OK), "exit_code": 0, **fields}))


def test_options_become_a_request(backend: FakeBackend, tmp_path: Path) -> None:
    """Every option arrives where the API expects it, and nothing of this process's environment does."""
    (tmp_path / "in.csv").write_text("a,b")
    (tmp_path / "input").write_bytes(b"typed")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_bytes(b"x")
    program = tmp_path / "program.py"
    program.write_text("pass")
    code = main(
        ["run", str(program), "--timeout", "7", "--memory", "64M", "--env", "A=b=c", "--seed", "3", "--time", "10.5",
         "--preload", "numpy,json", "--file", f"{tmp_path}/in.csv:sub/in.csv", "--stdin", str(tmp_path / "input"),
         "--dir", f"{tmp_path}/data:/work/data", "--", "--flag", "two"]
    )  # fmt: skip
    request = backend.requests[0]
    assert code == 0
    assert (request.code, request.runtime, request.filename) == ("pass", "python", "program.py")
    assert request.args == ("--flag", "two")
    assert request.env == {"A": "b=c"}
    assert (request.limits.wall_s, request.limits.memory) == (7.0, 64 << 20)
    assert (request.seed, request.time, request.preload) == (3, 10.5, ("numpy", "json"))
    assert request.stdin == b"typed"
    assert backend.staged[0].files == {"sub/in.csv": b"a,b", "data/x": b"x"}


@pytest.mark.parametrize(
    ("name", "content", "runtime"),
    [
        ("a.py", b"pass", "python"),
        ("a.js", b"1", "javascript"),
        ("a.mjs", b"1", "javascript"),
        ("a.wasm", b"x", "wasi"),
    ],
)
def test_the_runtime_follows_from_the_name(
    backend: FakeBackend, tmp_path: Path, name: str, content: bytes, runtime: str
) -> None:
    """.py, .js, .mjs and .wasm say what a program is."""
    (tmp_path / name).write_bytes(content)
    assert main(["run", str(tmp_path / name)]) == 0
    assert backend.requests[0].runtime == runtime


def test_a_folder_for_a_module_is_a_preopen(backend: FakeBackend, tmp_path: Path) -> None:
    """--dir HOST:/ gives a WASI program that folder's copy under the name that it asked for."""
    (tmp_path / "p.wasm").write_bytes(b"x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "f").write_bytes(b"1")
    assert main(["run", str(tmp_path / "p.wasm"), "--dir", f"{tmp_path}/data:/"]) == 0
    assert backend.requests[0].preopens == ("/",)
    assert backend.staged[0].files == {"f": b"1"}


def test_a_program_on_standard_input(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads the program; what begins as a module is one."""
    for data, runtime in ((b"print(1)", "python"), (b"\0asm\1\0\0\0", "wasi")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert main(["run", "-"]) == 0
        assert backend.requests[-1].runtime == runtime


def test_json_is_one_object_and_nothing_else(backend: FakeBackend, capfd: pytest.CaptureFixture[str]) -> None:
    """With --json, standard output is exactly the result; the guest's output is in it."""
    _answer(backend, stdout=b"hello\n", value=[1], denials=(_denial(),))
    assert main(["run", "-c", "x", "--json"]) == 0
    out, err = capfd.readouterr()
    body = json.loads(out)
    assert (body["schema"], body["stdout"], body["value"], body["denials"][0]["code"]) == (1, "hello\n", [1], "absent")
    assert out.count("\n") == 1
    assert err == ""


def test_output_is_made_safe_unless_raw(backend: FakeBackend, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Control characters are shown as escapes; --raw passes bytes as they are."""
    _answer(backend, stdout=b"\x1b[2J\xff\n", stderr=b"\x07")
    assert main(["run", "-c", "x"]) == 0
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"\\x1b[2J\\xff\n", b"\\x07")
    _answer(backend, stdout=b"\x1b[2J\xff\n")
    assert main(["run", "-c", "x", "--raw"]) == 0
    assert capfdbinary.readouterr()[0] == b"\x1b[2J\xff\n"


def test_denials_are_listed_on_standard_error(backend: FakeBackend, capfd: pytest.CaptureFixture[str]) -> None:
    """Refusals are shown after the run; markup and control characters in a target are only text."""
    _answer(backend, denials=(_denial("[red]/etc/\x1bpasswd[/red]"),))
    assert main(["run", "-c", "x"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert "[red]/etc/\\x1bpasswd[/red]" in err
    assert "absent" in err
    assert "(claimed)" in err


@pytest.mark.parametrize(
    ("kind", "code", "hint"),
    [
        (OutcomeKind.TIMEOUT, 4, "--timeout"),
        (OutcomeKind.MEMORY, 4, "--memory"),
        (OutcomeKind.GUEST_ERROR, 1, "why"),
        (OutcomeKind.CANCELLED, 130, "cancelled"),
    ],
)
def test_a_bad_end_is_told(
    backend: FakeBackend, capfd: pytest.CaptureFixture[str], kind: OutcomeKind, code: int, hint: str
) -> None:
    """How a run ended is on standard error with what to do, and in the exit code."""
    _answer(backend, outcome=Outcome(kind, "why"), exit_code=None)
    assert main(["run", "-c", "x"]) == code
    err = capfd.readouterr().err
    assert kind.value in err
    assert hint in err


def test_files_are_saved_where_asked(backend: FakeBackend, tmp_path: Path) -> None:
    """--out makes the folder and puts new and changed files in it, whatever the outcome."""
    files = Files({"a/b.txt": File(b"1")})
    _answer(backend, files=files, outcome=Outcome(OutcomeKind.TIMEOUT))
    assert main(["run", "-c", "x", "--out", str(tmp_path / "deep" / "out")]) == 4
    assert (tmp_path / "deep" / "out" / "a" / "b.txt").read_bytes() == b"1"


def test_a_folder_that_cannot_be_made_stops_the_run(backend: FakeBackend, tmp_path: Path) -> None:
    """An unusable --out is told before anything runs."""
    (tmp_path / "file").write_text("")
    assert main(["run", "-c", "x", "--out", str(tmp_path / "file" / "out")]) == 2
    assert backend.requests == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "nowhere.py"],
        ["run", "-c", "x", "--tier", "bogus"],
        ["run", "-c", "x", "--timeout", "-1"],
        ["run", "-c", "x", "--timeout", "soon"],
        ["run", "-c", "x", "--memory", "lots"],
        ["run", "-c", "x", "--env", "NOVALUE"],
        ["run", "-c", "x", "--dir", "nocolon"],
        ["run", "-c", "x", "--dir", "/:/elsewhere"],
        ["run", "-c", "x", "--time", "yesterday"],
        ["run", "-c", "x", "--file", "nowhere.csv"],
        ["run", "-c", "x", "--stdin", "nowhere"],
        ["run", "-", "--stdin", "-"],
        ["run", "-c", "x", "--bogus"],
        ["bogus"],
    ],
)
def test_mistakes_exit_2_and_nothing_runs(
    backend: FakeBackend, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Wrong usage is told on standard error, standard output stays empty, and no guest is started."""
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("fastness: ")
    assert backend.requests == []


def test_a_machine_that_fails_exits_70(backend: FakeBackend, capfd: pytest.CaptureFixture[str]) -> None:
    """What is not the caller's fault has a code of its own, and its message has the fix."""
    backend._answers.append(BackendError("starting", "no room", "make some"))
    assert main(["run", "-c", "x"]) == 70
    assert "Fix: make some" in capfd.readouterr().err


def _denial(target: str = "/etc/passwd") -> Denial:
    return Denial(
        capability="fs", operation="path_open", target=target, code=DenialCode.ABSENT, layer="guest", claimed=True
    )
