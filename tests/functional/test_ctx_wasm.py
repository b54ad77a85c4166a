"""
What guests of the tier ``wasm`` find as ctx, and what comes of calls: good ones, hostile ones, and those that are left.
"""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from ctx_support import Host
from direct_engine import ask

import house
from fastness.backends.base import Staged
from fastness.backends.wasm import WasmBackend
from fastness.errors import ConfigurationError
from fastness.limits import Limits
from fastness.looping import LoopWaiting
from fastness.runs import DenialCode, OutcomeKind, PluginCall
from fastness.waiting import ThreadWaiting, drive

RUNTIMES = ("python", "javascript")


@pytest.fixture(scope="module")
def backend() -> Iterator[WasmBackend]:
    """One engine for each runtime, so that each run meets what the run before it left."""
    house.require("python guest")
    house.require("javascript guest")
    made = WasmBackend(waiting=ThreadWaiting(), engines=2)
    yield made
    drive(made.aclose())


@pytest.fixture(params=RUNTIMES)
def host(request: pytest.FixtureRequest, backend: WasmBackend) -> Host:
    return Host(backend, request.param)


@pytest.fixture
def python(backend: WasmBackend) -> Host:
    return Host(backend, "python")


@pytest.fixture
def javascript(backend: WasmBackend) -> Host:
    return Host(backend, "javascript")


def either(host: Host, python: str, javascript: str) -> str:
    return python if host.runtime == "python" else javascript


#: Frames as a hostile guest writes them: ``call`` and ``raw`` in both languages.
_FORGE_PYTHON = """
import os, json, struct
def raw(data):
    os.write(1002, data)
def frame(kind, head, blob=b""):
    head = head if isinstance(head, bytes) else json.dumps(head).encode()
    raw(struct.pack(">BBHII", 1, kind, 0, len(head), len(blob)) + head + blob)
def call(id, capability="box", operation="noop", blob=b"{}"):
    frame(0x43, {"id": id, "capability": capability, "operation": operation}, blob)
def answer():
    head = os.read(1002, 12)
    if not head: return None
    _, kind, _, size, blob = struct.unpack(">BBHII", head)
    return [kind, json.loads(os.read(1002, size)), os.read(1002, blob) if blob else b""]
"""


# ------------------------------------------------------------------------------------------------- what a guest finds


def test_what_is_not_granted_is_absent(host: Host) -> None:
    """A capability that was not granted is no attribute, and neither is an operation that there is not."""
    code = either(
        host,
        "[getattr(ctx, 'fs', None) is None, hasattr(ctx, 'box'), hasattr(ctx.box, 'gone'), 'add' in globals()]",
        "[ctx.fs === undefined, ctx.box !== undefined, 'gone' in ctx.box, typeof add === 'function']",
    )
    assert host.value(code) == [True, True, False, True]


def test_without_grants_there_is_an_empty_ctx(host: Host) -> None:
    """A run whose policy allows nothing has a ctx that can do nothing, and its program no function of the host's."""
    code = either(
        host,
        "[hasattr(ctx, 'box'), hasattr(ctx, 'host'), 'add' in globals()]",
        "['box' in ctx, 'host' in ctx, 'add' in globalThis]",
    )
    assert host.value(code, scopes={}) == [False, False, False]


def test_without_calls_there_is_no_ctx_and_no_channel(host: Host) -> None:
    """The control: a plain run has neither the name nor the descriptor."""
    code = either(
        host,
        "import os\ntry:\n  os.write(1002, b'x')\n  wrote = True\nexcept OSError:\n  wrote = False\n['ctx' in globals(), wrote]",
        "[typeof ctx !== 'undefined', os.write(1002, new Uint8Array([1]).buffer, 0, 1) >= 0]",
    )
    assert drive(host.backend.run(host.request(code), Staged(), None)).value == [False, False]


def test_nothing_of_ctx_is_inherited(javascript: Host) -> None:
    """No prototype chain leads anywhere from ctx, and what user code puts on prototypes is no argument."""
    code = """
    Object.prototype.key = "inherited"; Object.prototype.value = 1;
    const chain = [Object.getPrototypeOf(ctx), Object.getPrototypeOf(ctx.box), Object.isFrozen(ctx), Object.isFrozen(ctx.box)];
    let missing;
    try { await ctx.box.get() } catch (error) { missing = error.message }
    delete Object.prototype.key; delete Object.prototype.value;
    [...chain, missing, await ctx.box.echo({key: "k"})]
    """
    assert javascript.value(code) == [None, None, True, True, "box.get() is missing key", None]


def test_functions_have_names_and_words(python: Host) -> None:
    """A function of the host's carries its name and its documentation."""
    assert python.value("[add.__name__, 'Add two numbers.' in add.__doc__]") == ["add", True]


# --------------------------------------------------------------------------------------------------------------- calls


def test_calls_by_position_and_by_name(host: Host) -> None:
    """Arguments are given by position or by name, and the host's functions are names of the program."""
    code = either(host, "[add(1), add(1, 2), add(a=1, b=5), ctx.host.add(2)]",
                  "[await add(1), await add(1, 2), await add({a: 1, b: 5}), await ctx.host.add(2)]")  # fmt: skip
    report = host.run(code)
    assert report.value == [2, 3, 6, 3]
    assert report.usage.calls == 4


def test_state_of_the_host_is_reached(host: Host) -> None:
    """What one run keeps, the adapter has, and gives to the next run."""
    put = either(
        host,
        "ctx.box.put('k', {'a': [1, b'x', 2**80]})",
        "await ctx.box.put('k', {a: [1, new Uint8Array([120]), 2n ** 80n]})",
    )
    host.value(put)
    assert host.box.values == {"k": {"a": [1, b"x", 2**80]}}
    assert host.value(either(host, "ctx.box.get('k')", "await ctx.box.get('k')")) == {"a": [1, b"x", 2**80]}


_VALUES: list[Any] = [
    None, True, 0, -1, 2**53 - 1, 2**53, -(2**64), 2**4000, 1.5, math.inf, -math.inf, "", 'zwölf \U0001f600 \0 " \\',
    "a\ud800b", b"", bytes(range(256)), [], {}, {"$": ["int", "1"]}, {"$": 1, "\udc00": [2]}, {"__proto__": 1, "constructor": {}},
    [[[[]]]], {"a": {"b": [None, {"c": b"x"}]}},
]  # fmt: skip


@pytest.mark.parametrize("value", _VALUES, ids=lambda value: ascii(value)[:30])
def test_values_come_and_go_unchanged(host: Host, value: Any) -> None:
    """Whatever the host gives, the guest can give back, and it is the same."""
    host.box.values["v"] = value
    code = either(
        host,
        "v = ctx.box.get('v'); ctx.box.put('w', v); v",
        "const v = await ctx.box.get('v'); await ctx.box.put('w', v); v",
    )
    assert repr(host.value(code)) == repr(value)
    assert repr(host.box.values["w"]) == repr(value)


def test_nan_comes_and_goes(host: Host) -> None:
    """NaN too."""
    host.box.values["v"] = [math.nan, -0.0]
    assert repr(host.value(either(host, "ctx.box.get('v')", "await ctx.box.get('v')"))) == "[nan, -0.0]"
    host.value(either(host, "ctx.box.put('w', float('nan'))", "await ctx.box.put('w', NaN)"))
    assert math.isnan(host.box.values["w"])


def test_types_of_javascript(javascript: Host) -> None:
    """Bytes are a Uint8Array, large integers a BigInt, and small ones numbers."""
    javascript.box.values["v"] = [b"x", 2**60, 5, {"__proto__": 3}]
    code = """const [bytes, big, small, odd] = await ctx.box.get('v');
    [bytes instanceof Uint8Array, typeof big, typeof small, Object.getPrototypeOf(odd) === Object.prototype, Object.keys(odd)]"""
    assert javascript.value(code) == [True, "bigint", "number", True, ["__proto__"]]


@pytest.mark.parametrize(
    ("key", "code", "noted"),
    [("forbidden", "outside", True), ("quota", "quota", True), ("broken", "failed", False)],
)
def test_refusals_are_errors_with_a_code(host: Host, key: str, code: str, noted: bool) -> None:
    """A refusal is an exception that says why, and the host's own row of the report."""
    program = either(
        host,
        f"try:\n  ctx.box.put({key!r})\nexcept ctx.Refused as e:\n  found = e.code\nfound",
        f"let found; try {{ await ctx.box.put({key!r}) }} catch (e) {{ found = e instanceof Error ? e.code : 0 }} found",
    )
    report = host.run(program)
    assert report.value == code
    rows = [
        (row.capability, row.operation, row.target, row.code.value, row.layer, row.claimed) for row in report.denials
    ]
    assert rows == ([("box", "put", key, code, "broker", False)] if noted else [])


def test_an_uncaught_refusal_is_the_guests_error(host: Host) -> None:
    """It ends the program as any exception does, and its traceback shows no code of ours."""
    report = host.run(either(host, "ctx.box.put('forbidden')", "await ctx.box.put('forbidden')"))
    assert report.outcome.kind is OutcomeKind.GUEST_ERROR
    assert "Refused" in report.outcome.detail and "outside" in report.outcome.detail
    assert b"fastness:" not in report.stderr and b"<fastness>" not in report.stderr


@pytest.mark.parametrize(
    ("python_code", "javascript_code", "place"),
    [
        ("ctx.box.put('k', {'a': [1, len]})", "await ctx.box.put('k', {a: [1, () => 1]})", "value.a[1]"),
        ("ctx.box.put('k', object())", "await ctx.box.put('k', Symbol('x'))", "value"),
        ("x = []; x.append(x); ctx.box.put('k', x)", "const x = []; x.push(x); await ctx.box.put('k', x)", "value"),
        ("ctx.box.put('k', {1: 2})", "await ctx.box.put('k', {[Symbol('x')]: 2})", "value"),
        ("ctx.box.put('k', [type('C', (dict,), {})()])", "await ctx.box.put('k', [new Map()])", "value[0]"),
        ("ctx.box.put('k', [[1, {2}]])", "await ctx.box.put('k', [[1, {get a() { return 1 }}]])", "value[0][1]"),
        ("ctx.box.put('k', [complex()])", "await ctx.box.put('k', [new (class A {})])", "value[0]"),
    ],
)  # fmt: skip
def test_what_is_no_plain_data_is_refused_with_its_place(
    host: Host, python_code: str, javascript_code: str, place: str
) -> None:
    """Functions, symbols, cycles and live objects are refused before anything is sent, and the error says where."""
    report = host.run(either(host, python_code, javascript_code))
    assert report.outcome.kind is OutcomeKind.GUEST_ERROR
    assert report.outcome.detail.startswith("TypeError")
    assert place in report.outcome.detail
    assert (report.usage.calls, host.paper.rows) == (0, [])


def test_deep_and_huge_arguments_are_refused_before_they_are_sent(host: Host) -> None:
    """1,000 lists inside each other, and 100 MB, are errors inside the guest."""
    deep = either(
        host,
        "x = []\nfor _ in range(1000): x = [x]\nctx.box.put('k', x)",
        "let x = []; for (let i = 0; i < 1000; i++) x = [x]; await ctx.box.put('k', x)",
    )
    huge = either(host, "ctx.box.put('k', 'x' * 100_000_000)", "await ctx.box.put('k', 'x'.repeat(100_000_000))")
    for code in (deep, huge):
        report = host.run(code)
        assert report.outcome.kind is OutcomeKind.GUEST_ERROR
        assert report.outcome.detail.startswith("TypeError")
        assert report.usage.calls == 0


def test_large_arguments_and_answers_cross(host: Host) -> None:
    """Three megabytes each way, which are many pieces on the wire."""
    code = either(
        host,
        "ctx.box.put('k', b'y' * 3_000_000); len(ctx.box.large(2_900_000))",
        "await ctx.box.put('k', 'y'.repeat(3_000_000)); (await ctx.box.large(2_900_000)).length",
    )
    assert host.value(code) == 2_900_000
    assert len(host.box.values["k"]) == 3_000_000


def test_arguments_past_frame_bytes_are_a_refusal(host: Host) -> None:
    """A lower limit of the caller's is told to the program, and nothing reaches the host."""
    code = either(
        host,
        "try:\n  ctx.box.put('k', 'x' * 5000)\nexcept ctx.Refused as e:\n  found = e.code\nctx.box.put('k', 'y'); found",
        "let found; try { await ctx.box.put('k', 'x'.repeat(5000)) } catch (e) { found = e.code } await ctx.box.put('k', 'y'); found",
    )
    assert host.value(code, limits=Limits(frame_bytes=4096)) == "too_large"
    assert host.box.values == {"k": "y"}


def test_wrong_arguments_are_told_by_the_host(host: Host) -> None:
    """Types are the host's to judge."""
    code = either(host, "add('x')", "await add('x')")
    report = host.run(code)
    assert "invalid" in report.outcome.detail and "int" in report.outcome.detail


def test_log_lines_are_events_up_to_a_limit(host: Host) -> None:
    """Lines come as events; past ``log_bytes`` they are dropped and the run goes on."""
    code = either(
        host,
        "for i in range(100): ctx.log('info', 'x' * 100)\nctx.log('error', 'zwölf'); 'on'",
        "for (let i = 0; i < 100; i++) ctx.log('info', 'x'.repeat(100)); ctx.log('error', 'zwölf'); 'on'",
    )
    assert host.value(code) == "on"
    assert host.events[-1] == ("log", {"level": "error", "text": "zwölf"})
    assert len(host.events) == 101
    host.events.clear()
    assert host.value(code, limits=Limits(log_bytes=1000)) == "on"
    assert 1 <= len(host.events) <= 7


# ---------------------------------------------------------------------------------------------------- at the same time


def test_many_calls_at_once_are_held_to_the_limit(host: Host) -> None:
    """Of forty-one calls that a program makes at once, no more than the limit are under way, and all are answered."""
    code = either(
        host,
        "import asyncio\nasync def main():\n  return await asyncio.gather(*[ctx.box.meet(4), *[ctx.box.meet(4) for i in range(20)], *[ctx.box.echo(str(i), i) for i in range(20)]])\nasyncio.run(main())[21:]",
        "(await Promise.all([...Array.from({length: 21}, () => ctx.box.meet(4)), ...Array.from({length: 20}, (_, i) => ctx.box.echo(String(i), i))])).slice(21)",
    )
    assert host.value(code, limits=Limits(calls_in_flight=4)) == list(range(20))
    assert host.box.most == 4


def test_timers_go_on_while_a_call_is_under_way(host: Host) -> None:
    """A program that waits for a call and for a timer gets the timer first."""
    code = either(
        host,
        """
import asyncio
async def main():
    call = asyncio.ensure_future(wait())
    await asyncio.sleep(0.02)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        pass
    return [await ctx.box.echo('k', 1)]
async def wait():
    return await ctx.box.slow()
asyncio.run(main())""",
        "await Promise.race([ctx.box.slow(), new Promise(done => setTimeout(() => done('timer'), 20))]); std.exit(0)",
    )
    report = host.run(code)
    assert report.outcome.kind is OutcomeKind.OK, report
    if host.runtime == "python":
        assert report.value == [1]
    assert host.box.cancelled == 1


def test_a_call_that_nobody_waits_for_is_made(javascript: Host) -> None:
    """The program's end waits for what it began."""
    javascript.value("ctx.box.put('k', 7); undefined")
    assert javascript.box.values == {"k": 7}


# ------------------------------------------------------------------------------------------------------------- plugins


def test_a_plugins_method_is_called_with_ctx_and_arguments(host: Host) -> None:
    """Its value is what the method returns, awaited; its module may import others beside it."""
    call = PluginCall(module=either(host, "plug", "plug.mjs"), method="go", arguments={"n": 4, "b": b"\xff"})
    if host.runtime == "python":
        code, files = (
            "",
            {
                "plug.py": b"import beside\nasync def go(ctx, n, b):\n    return [await ctx.host.add(n), b, beside.x]",
                "beside.py": b"x = 1",
            },
        )
    else:
        code = "import {x} from './beside.mjs'; export async function go(ctx, {n, b}) { return [await ctx.host.add(n), b, x] }"
        files = {"beside.mjs": b"export const x = 1"}
    assert host.value(code, files=files, plugin=call) == [5, b"\xff", 1]


def test_a_method_that_is_not_there(host: Host) -> None:
    """It is the plugin's error; what a module inherits or keeps to itself is no method."""
    for method in ("nope", "__proto__", "hidden"):
        call = PluginCall(module=either(host, "plug", "plug.mjs"), method=method)
        code = either(host, "", "const hidden = () => 1; export const x = 1")
        report = host.run(code, files={"plug.py": b""} if host.runtime == "python" else {}, plugin=call)
        assert report.outcome.kind is OutcomeKind.GUEST_ERROR


def test_a_plugin_that_fails_at_import(host: Host) -> None:
    """Its exception is the outcome."""
    call = PluginCall(module=either(host, "plug", "plug.mjs"), method="go")
    code = either(host, "", "export function go() {} throw new RangeError('at once')")
    report = host.run(code, files={"plug.py": b"1/0"} if host.runtime == "python" else {}, plugin=call)
    assert report.outcome.kind is OutcomeKind.GUEST_ERROR
    assert ("ZeroDivisionError" if host.runtime == "python" else "RangeError: at once") in report.outcome.detail


def test_a_plugin_needs_calls(host: Host) -> None:
    """Without a broker no plugin runs."""
    with pytest.raises(ConfigurationError, match="plugin"):
        drive(host.backend.run(host.request("", PluginCall(module="m", method="go")), Staged(), None))


# ---------------------------------------------------------------------------------------------------------- how it ends


def test_too_many_calls_end_the_run(host: Host) -> None:
    """One call more than a run may make ends it as ``call_limit``; those before were made."""
    code = either(
        host, "for i in range(10): ctx.box.put(str(i))", "for (let i = 0; i < 10; i++) await ctx.box.put(String(i))"
    )
    report = host.run(code, calls=host.make_calls(calls=5))
    assert report.outcome.kind is OutcomeKind.CALL_LIMIT
    assert (report.usage.calls, sorted(host.box.values)) == (5, ["0", "1", "2", "3", "4"])


def test_a_deadline_ends_a_run_that_waits_for_an_answer(host: Host) -> None:
    """As it ends a sleep; the call is cancelled and the engine serves on."""
    pids = host.backend.engine_pids()
    report = host.run(
        either(host, "print('before'); ctx.box.slow()", "print('before'); await ctx.box.slow()"), timeout=0.3
    )
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert report.stdout == b"before\n"
    assert host.box.cancelled == 1
    assert host.value("1 + 1") == 2
    if pids:
        assert set(host.backend.engine_pids()) & set(pids), "the engine was ended, so it had not answered"


def test_cancelling_all_ends_a_run_that_waits_for_an_answer(host: Host) -> None:
    """A sandbox that is closed does not wait for an adapter."""

    def later() -> None:
        host.box.slow.wait(10)
        host.backend.cancel_all()  # type: ignore[attr-defined]

    thread = threading.Thread(target=later)
    thread.start()
    report = host.run(either(host, "ctx.box.slow()", "await ctx.box.slow()"))
    thread.join()
    assert report.outcome.kind is OutcomeKind.CANCELLED
    assert host.box.cancelled == 1


def test_a_callback_that_raises_ends_everything(host: Host) -> None:
    """What a caller's callback raises for a log line comes out of the run; its calls are closed."""

    def sink(name: str, data: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        host.run(
            either(host, "ctx.log('info', 'x'); ctx.box.slow()", "ctx.log('info', 'x'); await ctx.box.slow()"),
            sink=sink,
        )
    _closed(host)


def _closed(host: Host) -> None:
    """The run's calls are closed: none is in flight, and a further one is not taken."""
    assert host.calls is not None
    assert host.calls.in_flight == ()
    began = len(host.box.began)
    host.calls.submit(10_000_000, "box", "noop", b"{}")
    assert host.calls.in_flight == () and len(host.box.began) == began


@pytest.mark.parametrize("ending", ["ok", "error", "exit", "timeout", "protocol", "limit"])
def test_calls_are_closed_however_a_run_ends(python: Host, ending: str) -> None:
    """Nothing of a run is under way when its result is there."""
    code = {
        "ok": "call(1, operation='slow')",
        "error": "call(1, operation='slow'); 1/0",
        "exit": "call(1, operation='slow'); os._exit(3)",
        "timeout": "call(1, operation='slow'); answer()",
        "protocol": "call(1, operation='slow'); raw(b'?' * 12)",
        "limit": "call(1, operation='slow')\nfor i in range(2, 9): call(i)",
    }[ending]
    expected = {
        "ok": OutcomeKind.OK, "error": OutcomeKind.GUEST_ERROR, "exit": OutcomeKind.GUEST_ERROR,
        "timeout": OutcomeKind.TIMEOUT, "protocol": OutcomeKind.PROTOCOL, "limit": OutcomeKind.CALL_LIMIT,
    }[ending]  # fmt: skip
    report = python.run(
        _FORGE_PYTHON + code, timeout=1.0 if ending == "timeout" else 20, calls=python.make_calls(calls=3)
    )
    assert report.outcome.kind is expected
    _closed(python)
    assert python.box.now == 0
    assert python.box.cancelled == python.box.began.count("slow")


@pytest.mark.parametrize("library", ["asyncio", "trio"] if importlib.util.find_spec("trio") else ["asyncio"])
def test_on_event_loops(library: str) -> None:
    """The same on asyncio and trio; a task that is cancelled while its guest waits leaves nothing."""

    async def main() -> None:
        backend = WasmBackend(waiting=LoopWaiting(), engines=2)
        try:
            for runtime, code, slow in (
                ("python", "add(41)", "ctx.box.slow()"),
                ("javascript", "await add(41)", "await ctx.box.slow()"),
            ):
                host = Host(backend, runtime)
                assert (await host.run_async(code)).value == 42
                with anyio.move_on_after(30) as scope:
                    async with anyio.create_task_group() as group:
                        group.start_soon(host.run_async, slow)
                        await anyio.to_thread.run_sync(host.box.slow.wait)
                        group.cancel_scope.cancel()
                assert not scope.cancelled_caught
                _closed(host)
                assert (await host.run_async(code)).value == 42
        finally:
            await backend.aclose()

    anyio.run(main, backend=library)


_KILLED = """
import sys
sys.path[:0] = {paths!r}
from ctx_support import Host
from fastness.backends.wasm import WasmBackend
from fastness.looping import LoopWaiting
from fastness.waiting import ThreadWaiting
backend = WasmBackend(waiting=ThreadWaiting())
host = Host(backend, "javascript")
import threading
def tell():
    host.box.slow.wait()
    print(*backend.engine_pids(), flush=True)
threading.Thread(target=tell).start()
host.run("await ctx.box.slow()", timeout=60)
"""


def test_the_callers_death_ends_an_engine_whose_guest_waits(tmp_path: Path) -> None:
    """As it ends one whose guest sleeps."""
    house.require("javascript guest")
    code = _KILLED.format(paths=[str(house.SOURCE), str(Path(__file__).parent), str(Path(__file__).parents[1])])
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        assert pids
        caller.kill()
    ends = time.monotonic() + house.PROCESS_GRACE_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < ends:
        time.sleep(0.02)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_ctx_works_where_the_program_spoils_what_it_is_made_of(javascript: Host) -> None:
    """Functions that a program replaces are its own; calls are made all the same."""
    code = """
    const broken = () => { throw new Error("broken") };
    for (const on of [Map.prototype, Array.prototype, String.prototype, Promise.prototype, DataView.prototype, Uint8Array])
      for (const name of Object.getOwnPropertyNames(on))
        if (typeof Object.getOwnPropertyDescriptor(on, name).value === "function" && name !== "constructor" && name !== "then")
          try { on[name] = broken } catch {}
    JSON.parse = JSON.stringify = Object.create = Object.hasOwn = Reflect.ownKeys = std.fdopen = broken;
    globalThis.Promise = globalThis.Error = globalThis.BigInt = globalThis.Uint8Array = broken;
    Object.defineProperty(Object.prototype, "code", {value: "theirs", configurable: true, writable: true});
    const found = await ctx.box.echo("k", {a: [1, 2n ** 70n, "zwölf"]});
    let code;
    try { await ctx.box.put("forbidden") } catch (error) { code = error.code }
    delete Object.prototype.code;
    [found.a[0], found.a[1], found.a[2], code]
    """
    assert javascript.value(code) == [1, 2**70, "zwölf", "outside"]


# ------------------------------------------------------------------------------------------------------ hostile frames


@pytest.mark.parametrize(
    "code",
    [
        "raw(b'?' * 12)",
        "raw(b'\\x01\\x43\\x00\\x01' + bytes(8))",
        "frame(0x48, {'id': 1})",
        "frame(0x01, {})",
        "frame(0x04, {'id': 1})",
        "raw(struct.pack('>BBHII', 1, 0x43, 0, 1 << 30, 0))",
        "raw(struct.pack('>BBHII', 1, 0x43, 0, 2, (4 << 20) + 1))",
        "frame(0x43, b'{')",
        "frame(0x43, b'[' * 60000)",
        "frame(0x43, b'[]')",
        "frame(0x43, {'id': 1})",
        "frame(0x43, {'id': '1', 'capability': 'box', 'operation': 'noop'})",
        "frame(0x43, {'id': True, 'capability': 'box', 'operation': 'noop'})",
        "frame(0x43, {'id': 1, 'capability': 'box', 'operation': 'noop', 'owner': 'root'})",
        "frame(0x43, {'id': 1, 'capability': 'x' * 65, 'operation': 'noop'})",
        "frame(0x43, {'id': 1, 'capability': 'b\\ud800', 'operation': 'noop'})",
        "call(0)", "call(-1)", "call(2**53 + 1)", "call(2**70)", "call(1.5)",
        "call(5); call(5)", "call(5); call(4)",
        "frame(0x44, {'id': 1})",
        "call(1); frame(0x44, {'id': 2})",
        "frame(0x44, {'id': 1}, b'x')",
        "frame(0x45, {'level': 'loud', 'text': 'x'})",
        "frame(0x45, {'level': 'info', 'text': 1})",
    ],
)  # fmt: skip
def test_frames_that_are_none_end_the_run(python: Host, code: str) -> None:
    """Whatever is no call, drop or line of a log ends the guest as a protocol violation, and the engine serves on."""
    python.value("1")
    pids = python.backend.engine_pids()
    report = python.run(_FORGE_PYTHON + code)
    assert report.outcome.kind is OutcomeKind.PROTOCOL
    assert report.outcome.detail
    assert python.value("add(1)") == 2
    assert python.backend.engine_pids() == pids


def test_forged_calls_reach_no_further_than_ctx(python: Host) -> None:
    """A call of one's own making is judged like any: not granted, unknown, or invalid; what is granted works."""
    code = (
        "call(1, 'fs', 'read'); call(2, 'box', 'gone'); call(3, 'box', 'get', b'{\"key\": 1}'); call(4, 'box', 'get', b'nope');"
        'call(7, \'box\', \'echo\', b\'{"key": "a", "key": "k", "value": 9}\');'
        "sorted((a[1]['id'], a[1].get('code')) for a in [answer() for _ in range(5)])"
    )
    report = python.run(_FORGE_PYTHON + code)
    assert report.value == [[1, "not_granted"], [2, "unsupported"], [3, "invalid"], [4, "invalid"], [7, None]]
    assert {(row.capability, row.code) for row in report.denials} == {
        ("fs", DenialCode.NOT_GRANTED),
        ("box", DenialCode.UNSUPPORTED),
    }


@pytest.mark.parametrize(
    "blob",
    [
        "b'[' * 1000", "b'[' * 100000 + b']' * 100000", "b'{\"key\":' * 500", "b'[' + b'[],' * 300000 + b'[]]'",
        "b'{\"key\":\"k\",\"value\":NaN}'", "b'{\"key\":\"k\",\"value\":1e999}'", "b'{\"key\":\"k\",\"value\":9007199254740993}'",
        "b'{\"key\":\"k\",\"value\":\"\\\\ud800\"}'", "b'{\"key\":\"k\",\"value\":{\"$\":[\"int\",\"zz\"]}}'", "b'\\xff\\xfe'",
        "b'{\"$\":[\"dict\",\"key\",1,\"key\",2]}'", "b'null'", "b'[]'", "b'{\"key\":\"k\",\"owner\":\"root\"}'", "b''",
    ],
)  # fmt: skip
def test_forged_arguments_are_refused(python: Host, blob: str) -> None:
    """Deep, wide and malformed arguments are answered with a fault, and nothing is done."""
    report = python.run(_FORGE_PYTHON + f"call(1, 'box', 'put', {blob}); answer()[1]['code']")
    assert report.value == "invalid", report
    assert python.box.values == {}


def test_answers_that_are_never_read(python: Host) -> None:
    """A guest that reads no answer fills no memory: it waits, and its deadline ends it; the next run is served."""
    code = "for i in range(1, 1000): call(i, 'box', 'large', b'{\"number\": 2000000}')"
    report = python.run(_FORGE_PYTHON + code, timeout=2.0)
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert len(python.box.began) <= 16 + 6
    assert python.value("add(1)") == 2
    _closed(python)


def test_small_answers_that_are_never_read_do_no_harm(python: Host) -> None:
    """Those that fit wait in the engine, and go with the run."""
    assert python.value(_FORGE_PYTHON + "for i in range(1, 1000): call(i)\n'done'") == "done"
    assert python.value(_FORGE_PYTHON + "call(1); answer()[1]") == {"id": 1}


def test_calls_over_the_limit_in_flight_wait(python: Host) -> None:
    """A guest that asks for more at once waits in the write, and no more than the limit is under way."""
    code = "for i in range(1, 6): call(i, operation='slow')\n"
    report = python.run(_FORGE_PYTHON + code, timeout=1.0, limits=Limits(calls_in_flight=3))
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert (python.box.began, python.box.cancelled) == (["slow"] * 3, 3)


def test_a_dropped_call_makes_room(python: Host) -> None:
    """What the guest gives up is cancelled, and is not answered."""
    code = "for i in range(1, 6):\n  call(i, operation='slow'); frame(0x44, {'id': i})\ncall(9); answer()[1]"
    assert python.value(_FORGE_PYTHON + code, limits=Limits(calls_in_flight=1)) == {"id": 9}
    assert python.box.cancelled == python.box.began.count("slow")


def test_drops_without_end_are_not_passed_on(python: Host) -> None:
    """A drop of what is answered or dropped already costs the host nothing."""
    assert python.value(_FORGE_PYTHON + "call(1); answer()\nfor _ in range(20000): frame(0x44, {'id': 1})\n1") == 1


def test_lines_without_end_do_not_reach_the_host(python: Host) -> None:
    """Log lines past the limit stop in the engine."""
    code = 'data = struct.pack(\'>BBHII\', 1, 0x45, 0, 28, 0) + b\'{"level":"info","text":"aa"}\'\nassert len(data) == 40\nos.write(1002, data * 20000); 1'
    assert python.value(_FORGE_PYTHON + code, limits=Limits(log_bytes=10_000)) == 1
    assert 0 < len(python.events) < 400


def test_a_deadline_ends_a_write_of_a_million_frames(python: Host) -> None:
    """The clock is looked at between frames that came in one write."""
    code = 'data = struct.pack(\'>BBHII\', 1, 0x45, 0, 28, 0) + b\'{"level":"info","text":"aa"}\'\nos.write(1002, data * 800000)'
    pids = python.backend.engine_pids()
    report = python.run(_FORGE_PYTHON + code, timeout=0.5)
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert not pids or python.backend.engine_pids() == pids, "the engine itself kept the deadline"


# -------------------------------------------------------------------------------------------- from one run to the next


def test_nothing_of_a_runs_calls_reaches_the_next(python: Host) -> None:
    """The same engine, reset in place: an answer that came too late, half a frame, and ids are not the next run's."""
    python.value("1")
    pids = python.backend.engine_pids()
    first = (
        _FORGE_PYTHON
        + "call(1, 'box', 'large', b'{\"number\": 3000000}'); call(2, 'box', 'echo', b'{\"key\":\"k\",\"value\":\"first\"}'); raw(b'\\x01\\x43\\x00'); 'left'"
    )
    second = (
        _FORGE_PYTHON
        + 'before = answer(); call(1, \'box\', \'echo\', b\'{"key":"k","value":"second"}\'); [before, answer()]'
    )
    for _ in range(5):
        assert python.value(first) == "left"
        assert python.value(second) == [None, [4, {"id": 1}, b'"second"']]
    assert python.backend.engine_pids() == pids


def test_an_instance_is_reset_in_place_after_calls(host: Host) -> None:
    """Calls leave nothing in memory that stands in the way of a reset, and nothing of the ctx stays."""
    code = either(host, "ctx.box.put('k', 1); mark = 1", "await ctx.box.put('k', 1); globalThis.mark = 1")
    for _ in range(3):
        host.value(code)
    look = either(
        host, "['ctx' in globals(), 'mark' in globals()]", "[typeof ctx !== 'undefined', 'mark' in globalThis]"
    )
    assert drive(host.backend.run(host.request(look), Staged(), None)).value == [False, False]
    assert host.value(either(host, "hasattr(ctx, 'host')", "'host' in ctx"), scopes={}) is False


def test_an_instance_is_the_image_again_after_calls(host: Host) -> None:
    """Byte for byte, also where answers were never read and frames were cut short."""
    codes = [either(host, "add(1); ctx.log('info', 'x')", "await add(1); ctx.log('info', 'x')")]
    if host.runtime == "python":
        codes.append(_FORGE_PYTHON + "for i in range(1, 9): call(i)\nraw(b'\\x01\\x43')")
    for code in codes:
        host.value(code)
        host.value(code)
        pools = [pool for key, (_, pool) in host.backend._pools.items() if key[0] == host.runtime]  # type: ignore[attr-defined]
        engines = [engine for pool in pools for engine in pool.waiting]
        assert engines
        assert [ask(engine, "compare").ending for engine in engines] == ["returned"] * len(engines)


def test_a_session_calls_in_each_execute(host: Host) -> None:
    """Its ctx lasts; usage and refusals are those of each execute, and its calls end with it."""
    session, calls = host.open()
    try:
        put = either(host, "ctx.box.put('{}', 1)", "await ctx.box.put('{}', 1)")
        keep = either(host, "mine = ctx\n", "globalThis.mine = ctx;")
        assert host.execute(session, keep + put.format("a")).usage.calls == 1
        refused = host.execute(session, put.format("forbidden"))
        assert [row.count for row in refused.denials] == [1]
        again = host.execute(
            session, either(host, "[mine is ctx, add(1), add(2)]", "[mine === ctx, await add(1), await add(2)]")
        )
        assert (again.value, again.usage.calls, again.denials) == ([True, 2, 3], 2, ())
        assert host.execute(session, put.format("forbidden")).denials[0].count == 1
        call = PluginCall(module="plug", method="go", arguments={})
        assert host.execute(session, "", plugin=call).outcome.kind is OutcomeKind.GUEST_ERROR
        assert not calls._closed
    finally:
        drive(session.aclose())
    _closed(host)


def test_a_session_drops_what_an_execute_left(python: Host) -> None:
    """What is in flight at the end of an execute is cancelled, and its answer is not the next one's."""
    session, _ = python.open()
    try:
        python.execute(session, _FORGE_PYTHON + "call(1, operation='slow'); call(2); answer()")
        after = python.execute(session, "before = answer(); call(3); [before, answer()[1]]")
        assert after.value == [None, {"id": 3}]
    finally:
        drive(session.aclose())
    assert python.box.cancelled == 1
    # Ids of a guest rise over its whole life.
    session, _ = python.open()
    try:
        python.execute(session, _FORGE_PYTHON + "call(5)")
        assert python.execute(session, "call(5)").outcome.kind is OutcomeKind.PROTOCOL
    finally:
        drive(session.aclose())


def test_a_plugin_in_a_session(host: Host) -> None:
    """Setup, a method and stop of one plugin see the same module."""
    session, _ = host.open()
    if host.runtime == "python":
        code = "open('plug.py', 'w').write('seen = []\\ndef setup(ctx): seen.append(1)\\ndef go(ctx, n): seen.append(n); return seen')"
        host.execute(session, code)
        code = ""
    else:
        code = "const seen = []; export const setup = (ctx) => { seen.push(1) }; export const go = (ctx, {n}) => { seen.push(n); return seen }"
    try:
        assert (
            host.execute(session, code, plugin=PluginCall(module="plug", method="setup")).outcome.kind is OutcomeKind.OK
        )
        report = host.execute(session, code, plugin=PluginCall(module="plug", method="go", arguments={"n": 2}))
        assert report.value == [1, 2]
    finally:
        drive(session.aclose())


def test_calls_do_not_move_a_clock_that_stands_still(host: Host) -> None:
    """With a fixed time a call takes none, whatever the timers of the program say."""
    code = either(
        host,
        "import time; a = time.time(); add(1); time.time() - a",
        "const a = Date.now(); setTimeout(() => 1, 50); await add(1); Date.now() - a",
    )
    assert host.value(code, time=1000.0) == 0


def test_calls_are_not_slow_for_want_of_a_wake_up(host: Host) -> None:
    """A hundred calls take far less than a hundred of the waits that a lost wake-up would cost; no promise of speed."""
    began = time.monotonic()
    host.value(either(host, "for i in range(100): add(i)", "for (let i = 0; i < 100; i++) await add(i)"))
    assert time.monotonic() - began < 20
