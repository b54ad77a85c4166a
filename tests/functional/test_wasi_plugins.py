"""Plugins that are command modules, and modules that call: their lines, their answers, and what hostile ones get."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import wat_programs as wat
from ctx_support import Box, BoxScope, Host

import fastness
import mails
import models
from fastness._wasi import compiler
from fastness.attack.assemble import assemble
from fastness.backends.base import Report, Staged
from fastness.backends.wasm import WasmBackend
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.capabilities.integrations import Counts, Email, Integrations, IntegrationsScope
from fastness.capabilities.llm import Llm, LlmScope
from fastness.capabilities.memory import Memory, MemoryScope
from fastness.capabilities.schedule import Schedule, ScheduleScope
from fastness.errors import ConfigurationError
from fastness.metering.ledger import Ledger
from fastness.runs import DenialCode, OutcomeKind, PluginCall
from fastness.waiting import ThreadWaiting, drive
from plugin_homes import own_home, package

PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "wasi.md"


@pytest.fixture(scope="module")
def backend() -> Iterator[WasmBackend]:
    made = WasmBackend(waiting=ThreadWaiting(), engines=2)
    yield made
    drive(made.aclose())


@pytest.fixture
def host(backend: WasmBackend) -> Host:
    return Host(backend, "wasi")


def literal(data: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in data)


def teller(*lines: bytes, reads: int | None = None, then: str = "") -> bytes:
    """A module that writes each piece to the descriptor of calls, then copies so many answers to its output."""
    fields, body, at = [], [], 1024
    for line in lines:
        fields.append(f'(data (i32.const {at}) "{literal(line)}")')
        body.append(f"(call $to (i32.const 1002) (i32.const {at}) (i32.const {len(line)}))")
        at += len(line)
    copy = """
        (i32.store (i32.const 0) (i32.const 65536)) (i32.store (i32.const 4) (i32.const 65536))
        (drop (call $fd_read (i32.const 1002) (i32.const 0) (i32.const 1) (i32.const 8)))
        (call $out (i32.const 65536) (i32.load (i32.const 8)))
    """
    to = """
        (func $to (param $fd i32) (param $at i32) (param $length i32)
          (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $length))
          (if (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)) (then (call $exit (i32.const 9)))))
    """
    count = len(lines) if reads is None else reads
    text = wat.command("".join(body) + copy * count + then, "fd_read", fields=to + "".join(fields), pages=4)
    return assemble(text)


def run(host: Host, module: bytes, plugin: PluginCall | None = None, calls: Any = None, **options: Any) -> Report:
    limits = options.pop("limits", {})
    made = host.request("1", runtime="python", limits=limits)
    request = msgspec.structs.replace(made, runtime="wasi", code=None, module=module, plugin=plugin, preload=None)
    return drive(host.backend.run(request, Staged(), None, calls or host.make_calls()))


def lines(report: Report) -> list[str]:
    assert report.outcome.kind is OutcomeKind.OK, (report.outcome, report.stderr)
    return report.stdout.decode().splitlines()


# Lines.


def test_a_line_is_a_call_and_its_answer_a_line(host: Host) -> None:
    """Values come and go, and each call is recorded."""
    asked = (b'box put {"key":"k","value":{"a":[1,{"$":["bytes","eA=="]}]}}\n', b'box get {"key":"k"}\n', b"box noop\n")
    report = run(host, teller(*asked))
    assert lines(report) == ["ok null", 'ok {"a":[1,{"$":["bytes","eA=="]}]}', "ok null"]
    assert host.box.values == {"k": {"a": [1, b"x"]}}
    assert report.usage.calls == 3
    assert [row[0] for row in host.paper.rows] == ["intent", "outcome"] * 3


def test_refusals_are_lines(host: Host) -> None:
    """A code and words, on one line whatever they hold; what is not granted is refused by name."""
    report = run(
        host,
        teller(
            b'box put {"key":"forbidden"}\n',
            b'box put {"key":5}\n',
            b'box put {"key":"broken"}\n',
            b"net request {}\n",
            b"box gone {}\n",
            b"box get {\n",
            b'box get {"key":"a\\nb"}\n',
        ),
    )
    found = lines(report)
    assert found[:3] == [
        "no outside forbidden",
        "no invalid Expected `str`, got `int` - at `$.key`",
        "no failed it broke",
    ]
    assert found[3:5] == ["no not_granted", "no unsupported"]
    assert found[5].startswith("no invalid the arguments cannot be read")
    assert found[6:] == ["ok null"]
    assert {row.code for row in report.denials} == {
        DenialCode.OUTSIDE, DenialCode.NOT_GRANTED, DenialCode.UNSUPPORTED,
    }  # fmt: skip


def test_a_line_may_come_in_pieces_and_many_at_once(host: Host) -> None:
    """What is written and when does not matter; answers come in the order of the lines."""
    pieces = (b"box ec", b'ho {"key":"k","val', b'ue":1}\nbox echo {"key":"k","value":2}\nbox noop {}', b"\n")
    assert lines(run(host, teller(*pieces, reads=3))) == ["ok 1", "ok 2", "ok null"]
    assert host.box.most == 1


def test_reading_without_a_call_finds_the_end(host: Host) -> None:
    """No answer will come, so there is nothing to wait for."""
    assert lines(run(host, teller(b"box noop {}\n", reads=3))) == ["ok null"]


@pytest.mark.parametrize(
    "data",
    [b"\n", b" \n", b"box\n", b"\xff\xfe x {}\n", b"x" * 65 + b" get {}\n", b"box " + b"y" * 65 + b" {}\n"],
)
def test_what_is_no_line_ends_the_run(host: Host, data: bytes) -> None:
    """As a frame that is none does, and nothing of it reaches an adapter."""
    report = run(host, teller(data))
    assert report.outcome.kind is OutcomeKind.PROTOCOL
    assert host.box.began == []


def test_a_line_without_end_ends_the_run(host: Host) -> None:
    """No more of a line is kept than a call may have."""
    write = "(loop $more (call $to (i32.const 1002) (i32.const 1024) (i32.const 65536)) (br $more))"
    report = run(host, teller(b"x", reads=0, then=write))
    assert report.outcome.kind is OutcomeKind.PROTOCOL
    assert "longer than" in report.outcome.detail
    assert host.box.began == []


def test_calls_are_counted(host: Host) -> None:
    """One more than a run may make ends it, and is not made."""
    write = "(loop $more (call $to (i32.const 1002) (i32.const 1024) (i32.const 12)) (br $more))"
    report = run(host, teller(b"box noop {}\n", reads=0, then=write), calls=host.make_calls(calls=5))
    assert report.outcome.kind is OutcomeKind.CALL_LIMIT
    assert host.box.began == ["noop"] * 5


def test_waiting_for_an_answer_ends_with_the_run(host: Host) -> None:
    """A call that does not come back holds a module no longer than its time."""
    made = host.request("1", runtime="python", timeout=0.5)
    request = msgspec.structs.replace(
        made, runtime="wasi", code=None, module=teller(b'box slow {"number":1}\n'), preload=None
    )
    report = drive(host.backend.run(request, Staged(), None, host.make_calls()))
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert host.box.cancelled == 1


def test_a_large_answer_comes_whole(host: Host) -> None:
    """An answer of a megabyte is one line."""
    loop = """
        (loop $more
          (i32.store (i32.const 0) (i32.const 65536)) (i32.store (i32.const 4) (i32.const 65536))
          (drop (call $fd_read (i32.const 1002) (i32.const 0) (i32.const 1) (i32.const 8)))
          (call $out (i32.const 65536) (i32.load (i32.const 8)))
          (br_if $more (i32.load (i32.const 8))))
    """
    made = teller(b'box large {"number":1000000}\n', reads=0, then=loop)
    report = run(host, made, limits={"output_bytes": 4 << 20})
    assert report.outcome.kind is OutcomeKind.OK
    assert re.fullmatch(rb'ok \{"\$":\["bytes","[A-Za-z0-9+/=]{1333336}"\]\}\n', report.stdout)


def test_without_calls_there_is_no_descriptor(backend: WasmBackend, host: Host) -> None:
    """The control: a module of a plain run is refused the write, and is not told of any number."""
    made = host.request("1", runtime="python")
    plain = msgspec.structs.replace(made, runtime="wasi", code=None, module=teller(b"box noop {}\n"), preload=None)
    assert drive(backend.run(plain, Staged(), None)).exit_code == 9
    listed = msgspec.structs.replace(plain, module=assemble(wat.ENV))
    assert drive(backend.run(listed, Staged(), None)).stdout == b""
    assert run(host, assemble(wat.ENV)).stdout == b"FASTNESS_CALLS=1002\0"


# Plugins.


def test_a_method_is_an_argument_and_its_answer_the_output(host: Host) -> None:
    """The module's name and the method are its arguments; what it prints is the value."""
    call = PluginCall(module="keeper.wasm", method="give", arguments={})
    report = run(host, assemble(wat.ARGS), call)
    assert report.stdout == b"keeper.wasm\0give\0"
    assert report.outcome.kind is OutcomeKind.GUEST_ERROR
    assert "no plain data" in report.outcome.detail
    echo = """
        (i32.store (i32.const 0) (i32.const 65536)) (i32.store (i32.const 4) (i32.const 65536))
        (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (call $out (i32.const 65536) (i32.load (i32.const 8)))
    """
    module = assemble(wat.command(echo, "fd_read", pages=4))
    given = {"a": [1, b"x", 2**60, "ü"], "b": {"$": None}}
    assert run(host, module, PluginCall(module="m", method="go", arguments=given)).value == given
    assert run(host, assemble(wat.command("")), call).value is None


@pytest.mark.parametrize("answer", [b"1 2", b"{", b"[" * 300 + b"]" * 300, b"\xff", b"NaN"])
def test_an_answer_that_is_none_fails_the_call(host: Host, answer: bytes) -> None:
    """It is the guest's mistake, told as such, and no value."""
    body = f"(call $out (i32.const 1024) (i32.const {len(answer)}))"
    module = assemble(wat.command(body, fields=f'(data (i32.const 1024) "{literal(answer)}")'))
    report = run(host, module, PluginCall(module="m", method="go"))
    assert (report.outcome.kind, report.value) == (OutcomeKind.GUEST_ERROR, None)


def test_an_answer_is_not_cut(host: Host) -> None:
    """One that is longer than what is kept of output is no answer."""
    module = assemble(wat.command("(call $out (i32.const 1024) (i32.const 60000))"))
    report = run(host, module, PluginCall(module="m", method="go"), limits={"output_bytes": 1000})
    assert report.outcome.kind is OutcomeKind.GUEST_ERROR
    assert "output_bytes" in report.outcome.detail


def test_a_status_tells_of_failure(host: Host) -> None:
    """What it printed before is no value then."""
    body = "(call $out (i32.const 1024) (i32.const 1)) (call $exit (i32.const 3))"
    module = assemble(wat.command(body, fields='(data (i32.const 1024) "1")'))
    report = run(host, module, PluginCall(module="m", method="go"))
    assert (report.outcome.kind, report.exit_code, report.value) == (OutcomeKind.GUEST_ERROR, 3, None)


def test_functions_of_the_host_for_a_plain_module() -> None:
    """A module of a plain run calls them by lines."""

    def add(a: int, b: int) -> int:
        return a + b

    module = teller(b'host add {"a":1,"b":2}\n', b"host gone {}\n")
    result = fastness.run(module=module, functions={"add": add})
    assert result.stdout.splitlines() == ["ok 3", "no unsupported"]
    assert result.usage.calls == 2


def test_a_module_that_takes_long_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller's time covers that too: the call is a timeout, and the compiler was given no longer."""
    given: list[float] = []

    def slow(wasm: bytes, timeout_s: float, cancel: threading.Event | None = None) -> Any:
        given.append(timeout_s)
        time.sleep(timeout_s)
        raise ConfigurationError("module", "still compiling at its deadline", "one that compiles sooner")

    with own_home(tmp_path / "home"), fastness.PluginHost() as host:
        # The tier is proven with modules of its own.
        drive(host._inner._runner.plan("wasm"))
        monkeypatch.setattr(compiler, "compile_user_module", slow)
        folder = package(tmp_path / "p", {}, runtime="wasi", methods=["go"])
        (folder / "main.wasm").write_bytes(assemble(wat.command("")))
        host.install(folder)
        host.grant("hello", owner="ann", all=True)
        result = host.invoke("hello", "go", owner="ann", timeout=0.1)
        assert result.outcome.kind is OutcomeKind.TIMEOUT
        assert len(given) == 1 and 0 < given[0] <= 1.1
        # Without a time of its caller's it is the compiler's own limit.
        monkeypatch.setattr(time, "sleep", lambda _: None)
        with pytest.raises(ConfigurationError, match="still compiling"):
            host.invoke("hello", "go", owner="ann")
        assert given[1] == compiler.USER_COMPILE_CPU_S


def test_the_page_works_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worked example of the page on modules: built, installed, granted and called."""
    text = PAGE.read_text("utf-8")
    blocks = dict(re.findall(r"^```(wat|toml|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    printed = text.rsplit("```\n", 2)[1]
    folder = tmp_path / "keeper"
    folder.mkdir()
    (folder / "keeper.wasm").write_bytes(assemble(blocks["wat"]))
    (folder / "plugin.toml").write_text(blocks["toml"])
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    exec(blocks["python"], {"print": lambda *values: said.append(" ".join(map(str, values)))})
    assert said == printed.splitlines()


def test_what_an_example_may_not_it_is_told(host: Host) -> None:
    """The same module without a grant: the host's answer is on standard error, and the call has failed."""
    text = re.search(r"^```wat\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert text is not None
    calls = host.make_calls(scopes={"box": BoxScope()})
    report = run(host, assemble(text[1]), PluginCall(module="keeper.wasm", method="give"), calls)
    assert (report.outcome.kind, report.stderr) == (OutcomeKind.GUEST_ERROR, b"no not_granted")
    assert isinstance(host.box, Box)


# What else is called by lines.


def test_models_and_memory_by_lines(host: Host, tmp_path: Path) -> None:
    """A program without frames asks a model and notes what it heard; a model's name is no tier for it either."""
    (tmp_path / "memory").mkdir(mode=0o700)
    server = models.Models()
    ledger = Ledger(str(tmp_path / "usage.db"))
    adapters: dict[str, Any] = {"llm": Llm(server.settings(), ledger), "memory": Memory(str(tmp_path / "memory"))}
    scopes: dict[str, Any] = {
        "llm": LlmScope(tiers=("cheap",), budget=1.0),
        "memory": MemoryScope(notes=10, quota=10_000),
    }
    gate = Gate(scopes, {kind: one.spec for kind, one in adapters.items()}, adapters)
    calls = RunCalls(
        gate, host.paper, run="r", plugin="p", owner="o", calls=10, value_bytes=1 << 20, deadline=time.monotonic() + 60
    )
    asked = (
        b'llm ask {"prompt":"what?"}\n',
        b'llm ask {"prompt":"what?","tier":"large-1"}\n',
        b'llm ask {"prompt":"what?","tier":"strong"}\n',
        b'memory add {"text":"it is a boiler"}\n',
        b'memory search {"words":"boiler"}\n',
        b'memory search {"words":"boiler","owner":"other"}\n',
    )
    try:
        said = lines(run(host, teller(*asked), calls=calls))
    finally:
        server.close()
    assert msgspec.json.decode(said[0].removeprefix("ok "))["text"] == "echo: what?"
    assert said[1].startswith("no invalid")
    assert said[2].startswith("no not_granted")
    assert said[3] == "ok 1"
    assert msgspec.json.decode(said[4].removeprefix("ok "))["notes"][0]["excerpt"] == "it is a boiler"
    assert said[5].startswith("no invalid")
    assert len(server.asked) == 1


def test_schedules_by_lines(host: Host, tmp_path: Path) -> None:
    """A program without frames schedules a method of its own; what was forged is dropped, and what is no time refused."""
    schedule = Schedule(str(tmp_path / "schedule.db"), lambda plugin: ("tell",))
    scope = ScheduleScope(standing=2)
    calls = RunCalls(
        Gate({"schedule": scope}, {"schedule": schedule.spec}, {"schedule": schedule}),
        host.paper, run="r", plugin="p", owner="o", calls=10, value_bytes=1 << 20, deadline=time.monotonic() + 60,
    )  # fmt: skip
    asked = (
        b'schedule every {"seconds":60,"method":"tell","args":{"n":1,"owner":"x"}}\n',
        b'schedule every {"seconds":0,"method":"tell"}\n',
        b'schedule at {"when":"2026-10-25T02:30:00","method":"tell"}\n',
        b'schedule at {"when":0,"method":"tell","owner":"x"}\n',
        b"schedule list {}\n",
    )
    said = lines(run(host, teller(*asked), calls=calls))
    assert said[0] == "ok 1"
    assert [one.split()[1] for one in said[1:4]] == ["rate", "unsupported", "invalid"]
    (one,) = msgspec.json.decode(said[4].removeprefix("ok "))["schedules"]
    assert (one["id"], one["method"], one["every"]) == (1, "tell", 60.0)
    (due,), _ = schedule.store.claim("a", 1 << 60, most=9, each=9, busy={}, grace=0)
    assert due.args == b'{"n":1}'
    schedule.store.close()


def test_integrations_by_lines(host: Host, tmp_path: Path) -> None:
    """A program without frames asks by the action's name; what nobody does, and what was not granted, are refused."""
    server = mails.Mails()
    adapter = Integrations([Email(server.settings())], Counts(str(tmp_path / "counts.db")))
    scope = IntegrationsScope(actions=("email.send", "sms.send"), per_day=5, recipients=("example.com",))
    gate = Gate({"integrations": scope}, {"integrations": adapter.spec}, {"integrations": adapter})
    calls = RunCalls(
        gate, host.paper, run="r", plugin="p", owner="o", calls=10, value_bytes=1 << 20, deadline=time.monotonic() + 60
    )
    asked = (
        b'integrations email.send {"to":"ann@example.com","subject":"s","text":"t"}\n',
        b'integrations email.send {"to":"eve@evil.test","subject":"s","text":"t"}\n',
        b"integrations sms.send {}\n",
        b"integrations email.read {}\n",
    )
    try:
        said = lines(run(host, teller(*asked), calls=calls))
    finally:
        server.close()
    assert msgspec.json.decode(said[0].removeprefix("ok "))["recipients"] == 1
    assert [line.split()[1] for line in said[1:]] == ["not_granted", "no_adapter", "not_granted"]
    assert len(server.taken) == 1
