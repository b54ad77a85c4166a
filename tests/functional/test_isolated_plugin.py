"""Plugins in guests: their whole life in each tier that holds here, and everything that a hostile one tries with it."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fastness
import house
from fastness._linux import procs
from fastness.audit.log import AuditLog
from fastness.broker.trail import Intent
from fastness.capability import Later
from fastness.errors import (
    ConfigurationError,
    ManifestError,
    PluginError,
    PluginTimeout,
    PluginViolation,
    StagingError,
    TierUnavailable,
)
from fastness.plugins.isolated import IsolatedPlugin
from fastness.plugins.lifecycle import DefaultPluginHost, PluginState
from fastness.runs import OutcomeKind

TIERS = ("worker", "confined", "isolated", "wasm")
HEAD = 'MANIFEST = {"id": "guest", "version": "1.0.0"}\n'
EVERYTHING = {"lookup": ["*"], "provide": ["*"], "declare": ["*"]}


class Paper:
    """A trail in memory."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def intend(self, intent: Intent) -> int:
        self.rows.append(f"intent {intent.plugin} {intent.capability}.{intent.operation} {intent.target}")
        return len(self.rows)

    def done(
        self,
        number: int,
        intent: Intent,
        *,
        code: str,
        micros: int,
        bytes_in: int,
        bytes_out: int,
        cost: int = 0,
        dropped: int = 0,
    ) -> None:
        self.rows.append(f"outcome {number} {code}".strip())

    def refused(self, intent: Intent, *, code: str) -> None:
        self.rows.append(f"refused {intent.operation} {code}")


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    house.require("python guest" if request.param == "wasm" else f"{request.param} tier")
    return str(request.param)


Load = Callable[..., IsolatedPlugin]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Writes a plugin's source and loads it; whatever came of it is gone after the test."""
    before = set(procs.descendants(os.getpid()))
    made: list[IsolatedPlugin] = []

    def loader(source: str, name: str = "guest.py", **options: Any) -> IsolatedPlugin:
        folder = tmp_path / "plugin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(source if "MANIFEST" in source or "manifest" in source else HEAD + source)
        plugin = IsolatedPlugin.load(folder / name, **{"policy": EVERYTHING, "trail": Paper(), **options})
        made.append(plugin)
        return plugin

    yield loader
    for plugin in made:
        plugin.close()
    ends = time.monotonic() + 10
    while left := set(procs.descendants(os.getpid())) - before:
        assert time.monotonic() < ends, f"processes are left: {[house.command_of(pid) for pid in left]}"
        time.sleep(0.02)


def started(plugin: Any, **known: Any) -> DefaultPluginHost:
    """A host with the plugin, after its start."""
    host = DefaultPluginHost(on_log=lambda *row: None)
    for name, value in known.items():
        host.provide(name, value)
    host.register(plugin)
    host.start()
    return host


def provided(plugin: IsolatedPlugin, **known: Any) -> Any:
    """What a plugin that must be fine provides as ``out``."""
    host = started(plugin, **known)
    assert host.errors() == (), (host.errors(), plugin.results["setup"].stderr)
    found = host.lookup("out")
    host.stop()
    assert host.errors() == ()
    return found


def test_calls_that_wait_for_nobody_are_served_where_the_phase_waits(load: Load, tmp_path: Path) -> None:
    """Whoever waits for a phase has its thread to spare; a call that would wait goes to the broker's loop."""
    house.require("isolated tier")
    log = AuditLog(str(tmp_path / "audit.db"), str(tmp_path / "audit.key"))
    log.event(op="begin")
    plugin = load("def setup(ctx): ctx.provide('out', ctx.lookup('name'))\n", trail=log)
    served: list[tuple[str, str]] = []

    def at_once(operation: str, arguments: Any, context: Any) -> Any:
        served.append((operation, threading.current_thread().name))
        if operation == "provide":
            raise Later
        return "value"

    plugin._bridge.at_once = at_once  # type: ignore[attr-defined]  # an adapter may have one
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(provided(plugin)), name="phase")
    thread.start()
    thread.join(60)
    assert results == ["value"]
    assert [operation for operation, _ in served] == ["lookup", "provide"]
    # A phase has a thread of its own, and it is that one.
    assert {name for _, name in served} == {served[0][1]} and served[0][1] != "fastness-broker"
    log.close()


# a whole life

LIFE = """
import helper

state = []


def setup(ctx):
    config = ctx.lookup("cfg")
    ctx.provide("client", {"endpoint": config["endpoint"], "more": helper.MORE})
    ctx.declare_capability("telemetry")
    ctx.log("info", "ready")
    state.append(config["endpoint"])


async def start(ctx):
    state.append((await ctx.lookup("cfg"))["endpoint"])
    await ctx.provide("state", state)


def stop(ctx):
    ctx.log("info", f"bye {state}")
"""
LIFE_JS = """
import { MORE } from "./helper.mjs";

const state = [];

export default {
  manifest: { id: "guest", name: "A guest", version: "1.0.0" },
  async setup(ctx) {
    const config = await ctx.lookup("cfg");
    await ctx.provide("client", { endpoint: config.endpoint, more: MORE });
    await ctx.declareCapability("telemetry");
    ctx.log("info", "ready");
    state.push(config.endpoint);
    this.mine = state;
  },
  async start(ctx) {
    this.mine.push((await ctx.lookup("cfg")).endpoint);
    await ctx.provide("state", state);
  },
  stop(ctx) { ctx.log("info", "bye " + state); },
};
"""


def test_a_whole_life(tier: str, load: Load, tmp_path: Path) -> None:
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "helper.py").write_text("MORE = [1, 2.5, None]\n")
    paper = Paper()
    plugin = load(LIFE, tier=tier, trail=paper)
    _live(plugin, paper)
    assert [result.tier for result in plugin.results.values()] == [tier] * 3
    assert all(result.sandboxed for result in plugin.results.values())


def test_a_whole_life_in_javascript(load: Load, tmp_path: Path) -> None:
    house.require("javascript guest")
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "helper.mjs").write_text("export const MORE = [1, 2.5, null];\n")
    paper = Paper()
    plugin = load(LIFE_JS, "guest.mjs", trail=paper)
    assert plugin.tier.value == "wasm"
    assert plugin.manifest.name == "A guest"
    _live(plugin, paper)


def _live(plugin: IsolatedPlugin, paper: Paper) -> None:
    logs: list[tuple[str, str]] = []
    host = DefaultPluginHost(on_log=lambda _, level, text: logs.append((level, text)))
    host.provide("cfg", {"endpoint": "here"})
    host.register(plugin)
    assert host.start() == {"guest": PluginState.STARTED}, host.errors()
    assert host.lookup("client") == {"endpoint": "here", "more": [1, 2.5, None]}
    # Memory of the guest's went from one phase to the next.
    assert host.lookup("state") == ["here", "here"]
    assert host.declared() == {"telemetry": ("guest",)}
    assert host.stop() == {"guest": PluginState.STOPPED}
    assert [level for level, _ in logs] == ["info", "info"]
    assert logs[0][1] == "ready"
    assert "here" in logs[1][1]
    rows = [(row.operation, row.target, row.decision) for row in plugin.audit()]
    assert rows == [
        ("lookup", "cfg", "allowed"),
        ("provide", "client", "allowed"),
        ("declare_capability", "telemetry", "allowed"),
        ("lookup", "cfg", "allowed"),
        ("provide", "state", "allowed"),
    ]
    where = plugin.tier.value
    assert paper.rows[:3] == [
        f"intent loaded:guest plugin.setup {where}",
        "intent loaded:guest ctx.lookup cfg",
        "outcome 2",
    ]
    assert [row for row in paper.rows if "plugin." in row] == [
        f"intent loaded:guest plugin.{phase} {where}" for phase in ("setup", "start", "stop")
    ]
    assert len(paper.rows) == 16
    assert not [row for row in paper.rows if row.startswith("refused") or row.endswith("failed")]


def test_it_may_be_started_again_in_another_guest(tier: str, load: Load) -> None:
    plugin = load("count = []\ndef setup(ctx):\n    count.append(1)\n    ctx.provide('out', len(count))", tier=tier)
    host = started(plugin)
    host.stop()
    assert host.start() == {"guest": PluginState.STARTED}, host.errors()
    assert host.lookup("out") == 1
    host.stop()


def test_a_host_that_stops_before_it_started_may_start(load: Load) -> None:
    plugin = load("def setup(ctx): ctx.provide('out', 1)")
    host = DefaultPluginHost()
    host.register(plugin)
    host.stop()
    assert host.start() == {"guest": PluginState.STARTED}, host.errors()
    assert host.lookup("out") == 1
    host.stop()
    # An end that was not its own is for good.
    assert host.start() == {"guest": PluginState.STARTED}
    plugin.close()
    assert host.stop() == {"guest": PluginState.ERROR}
    assert "load it again" in str(host.errors()[0].error)


def test_without_a_setup_nothing_is_started_and_nothing_stopped(load: Load) -> None:
    plugin = load("raise SystemExit")
    with pytest.raises(PluginError, match="is not set up"):
        plugin.start(None)
    plugin.stop(None)
    assert plugin.results == {}
    assert not plugin.alive


def test_without_any_phase_there_is_nothing_to_fail(load: Load) -> None:
    host = started(load("x = 1"))
    assert host.stop() == {"guest": PluginState.STOPPED}


def test_a_folder_with_a_manifest_beside_the_code(load: Load, tmp_path: Path) -> None:
    folder = tmp_path / "package"
    (folder / "src").mkdir(parents=True)
    (folder / "plugin.toml").write_text(
        'id = "guest"\nversion = "1.0.0"\napi = 1\nruntime = "python"\nentry = "src/main.py"\n'
    )
    (folder / "src" / "beside.py").write_text("WHERE = 'beside'\n")
    (folder / "src" / "main.py").write_text("import beside\ndef setup(ctx): ctx.provide('out', beside.WHERE)\n")
    for path in (folder, folder / "src" / "main.py"):
        root = {} if path.is_dir() else {"read_root": folder}
        if not path.is_dir():
            (folder / "src" / "plugin.toml").write_text((folder / "plugin.toml").read_text().replace("src/", ""))
        plugin = IsolatedPlugin.load(path, policy=EVERYTHING, trail=Paper(), **root)
        assert provided(plugin) == "beside"


def test_a_plugin_may_be_called_as_a_module_of_the_library_is(load: Load) -> None:
    source = HEAD + "def setup(ctx):\n    import json\n    ctx.provide('out', json.dumps([1]))"
    assert provided(load(source, "json.py")) == "[1]"


# the policy


def test_the_policy_is_kept_on_the_host(tier: str, load: Load) -> None:
    plugin = load("def setup(ctx): ctx.lookup('secret')", tier=tier, policy={"lookup": ["cfg:*"]})
    host = started(plugin, secret="x")
    assert host.state("guest") is PluginState.ERROR
    error = host.errors()[0].error
    assert isinstance(error, PluginViolation)
    assert (error.operation, error.target) == ("lookup", "secret")
    assert [(row.target, row.decision) for row in plugin.audit()] == [("secret", "denied")]


RAW_CALL = """
def raw(ctx, capability, operation, data):
    import json

    # By hand, past all that the guest's side of ctx would refuse.
    calls = next(cell.cell_contents for cell in ctx.lookup.__closure__ if type(cell.cell_contents).__name__ == "Calls")
    calls._last += 1
    number = calls._last
    calls._wanted.add(number)
    head = json.dumps({"id": number, "capability": capability, "operation": operation}).encode()
    calls._wire.send(0x43, head, data)
    try:
        return calls.wait(number, "")
    except ctx.Refused as error:
        return error.code


"""
FORGE = """
import json


def setup(ctx):
    ctx.provide("out", [raw(ctx, capability, operation, json.dumps(arguments).encode())
        for capability, operation, arguments in (
            ("ctx", "lookup", {"name": "secret"}),
            ("net", "request", {"method": "GET", "url": "https://example.com/"}),
            ("ctx", "log", {}),
            ("ctx", "lookup", {"name": "cfg:a", "owner": "somebody"}),
            ("ctx", "lookup", {"name": 5}),
            ("ctx", "lookup", {"name": "a" * 5000}),
            ("ctx", "lookup", {"name": "cfg:a"}),
        )])
"""


def test_calls_that_a_guest_makes_up_are_judged_as_those_of_its_ctx(tier: str, load: Load) -> None:
    plugin = load(RAW_CALL + FORGE, tier=tier, policy={"lookup": ["cfg:*"], "provide": ["out"]})
    # The last is the control: by hand, and allowed.
    assert provided(plugin, **{"secret": "x", "cfg:a": 1}) == [
        "not_granted", "not_granted", "unsupported", "invalid", "invalid", "invalid", 1
    ]  # fmt: skip


def test_a_denial_that_a_guest_catches_is_a_row_all_the_same(load: Load) -> None:
    source = """
def setup(ctx):
    try:
        ctx.lookup("secret")
    except ctx.Refused as error:
        ctx.provide("out", [error.code, str(error)])
"""
    seen: list[Any] = []
    plugin = load(source, policy={"provide": ["out"], "on_violation": seen.append})
    code, text = provided(plugin)
    assert code == "not_granted"
    assert "secret" in text
    assert [row.target for row in seen] == ["secret"]


def test_both_policies_hold_where_one_is_around_the_other(tier: str, load: Load) -> None:
    inner = load("def setup(ctx):\n    ctx.lookup('cfg:a')\n    ctx.lookup('cfg:b')", tier=tier)
    outer = fastness.sandbox_plugin(inner, {"lookup": ["cfg:a"]})
    host = started(outer)
    assert host.state("guest") is PluginState.ERROR
    assert [(row.target, row.decision) for row in outer.audit()] == [("cfg:a", "allowed"), ("cfg:b", "denied")]
    assert [(row.target, row.decision) for row in inner.audit()] == [("cfg:a", "allowed"), ("cfg:b", "allowed")]


def test_what_it_provides_is_bounded(load: Load) -> None:
    plugin = load("def setup(ctx):\n    for n in range(20): ctx.provide(f'n{n}', n)")
    host = started(plugin)
    assert "16 times" in str(host.errors()[0].error)
    assert len([row for row in plugin.audit() if row.decision == "allowed"]) == 16


# plain data


ODD = [math.nan, math.inf, -0.0, 2**53, -(10**4000), "\ud800", b"\x00\xff", {"$": 1, "": [None, True]}, "\0"]


def test_odd_values_cross_both_ways_as_they_are(tier: str, load: Load) -> None:
    back = provided(load("def setup(ctx): ctx.provide('out', ctx.lookup('given'))", tier=tier), given=ODD)
    assert math.isnan(back[0])
    assert math.copysign(1, back[2]) == -1
    assert back[1:] == ODD[1:]


def test_odd_values_cross_from_javascript_and_back(load: Load) -> None:
    house.require("javascript guest")
    source = """
export const manifest = { id: "guest", version: "1.0.0" };
export async function setup(ctx) {
  await ctx.provide("out", [await ctx.lookup("given"), NaN, -0, 2n ** 60n, "\\ud800", new Uint8Array([0, 255])]);
}
"""
    given = [math.inf, 2**60, "\ud800", b"\xff", {"__proto__": 1}]
    back = provided(load(source, "guest.js"), given=given)
    assert back[0] == given
    assert math.isnan(back[1])
    assert back[3:] == [2**60, "\ud800", b"\x00\xff"]


class Thing:
    def __repr__(self) -> str:
        raise AssertionError("code of an object was called")

    __str__ = __iter__ = __len__ = __bool__ = __eq__ = __hash__ = __repr__  # type: ignore[assignment]  # each is code


def _cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def _deep(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"client": {"send": len}}, "client.send is builtin_function_or_method"),
        ({"rows": [1, Thing()]}, "rows[1] is Thing"),
        (Thing(), "it is Thing"),
        ({1: {2: 3}}, "is a key of type int"),
        (type("Sub", (dict,), {})(a=1), "it is Sub"),
        (_cycle(), "only plain data"),
        (_deep(1000), "only plain data"),
        ("x" * (5 << 20), "only plain data"),
    ],
    ids=["function", "instance", "whole", "key", "subclass", "cycle", "deep", "large"],
)
def test_what_is_no_plain_data_is_not_given_to_a_guest(value: Any, place: str, load: Load) -> None:
    source = """
def setup(ctx):
    try:
        ctx.lookup("given")
    except ctx.Refused as error:
        ctx.provide("out", str(error))
"""
    text = provided(load(source), given=value)
    assert place in text
    assert "'given'" in text


OUT = """
class Thing: pass
cycle = []; cycle.append(cycle)
deep = []
for _ in range(1000): deep = [deep]

def setup(ctx):
    said = []
    for value in ({"client": {"send": len}}, {"rows": [1, Thing()]}, cycle, deep, {1: 2}, "x" * (5 << 20)):
        try:
            ctx.provide("bad", value)
        except TypeError as error:
            said.append(str(error))
    ctx.provide("out", said)
"""


def test_what_is_no_plain_data_does_not_come_from_a_guest(tier: str, load: Load) -> None:
    plugin = load(OUT, tier=tier)
    host = started(plugin)
    said = host.lookup("out")
    assert said[0].startswith("value.client.send is of type builtin_function_or_method")
    assert said[1].startswith("value.rows[1] is of type Thing")
    assert len(said) == 6
    assert host.lookup("bad") is None
    host.stop()


RAW = """
def setup(ctx):
    ctx.log("info", str(raw(ctx, "ctx", "provide", DATA)))
"""


@pytest.mark.parametrize(
    "data",
    [
        'b"[" * 100000 + b"]" * 100000',
        'b\'{"name":"bad","value":\' + b"[" * 1000 + b"]" * 1000 + b"}"',
        'b\'{"name":"bad","name":"out","value":1}\'',
        'b\'{"name":"bad","value":{"$":["int","zz"]}}\'',
        'b\'{"name":"bad","value":{"$":["pickle","gASVAA=="]}}\'',
        'b\'{"name":"bad","value":\'',
        'b"\\xff\\xfe"',
        'b\'{"name":"bad","value":[\' + b",".join([b"[]"] * 300000) + b"]}"',
    ],
    ids=["deep", "deep value", "twice", "bad int", "unknown tag", "cut", "no text", "many containers"],
)
def test_arguments_that_are_written_by_hand(data: str, tier: str, load: Load) -> None:
    paper = Paper()
    plugin = load(RAW_CALL + RAW.replace("DATA", data), tier=tier, policy={"provide": ["out"]}, trail=paper)
    host = started(plugin)
    assert "bad" not in host.provided()
    ended = plugin.results["setup"].outcome.kind
    if b"out" in eval(data):
        # Of two values for one name, one was looked at, and that is the one that counted.
        assert host.provided() == {"out": "guest"}
        assert "intent loaded:guest ctx.provide out" in paper.rows
    else:
        assert ended is OutcomeKind.PROTOCOL or "refused provide invalid" in paper.rows, (ended, paper.rows)
        assert host.provided() == {}
    host.stop()


# endings


@pytest.mark.parametrize(
    "body",
    ["import time\n    time.sleep(3600)", "while True: pass"],
    ids=["sleeps", "spins"],
)
@pytest.mark.parametrize("phase", ["setup", "start", "stop"])
def test_a_phase_that_does_not_end(body: str, phase: str, tier: str, load: Load) -> None:
    paper = Paper()
    plugin = load(f"def {phase}(ctx):\n    {body}", tier=tier, trail=paper, **{f"{phase}_timeout": 0.3})
    host = started(plugin)
    host.stop()
    (fault,) = host.errors()
    assert paper.rows[-1].endswith(" timeout")
    assert isinstance(fault.error, PluginTimeout)
    assert (fault.phase, fault.error.seconds, fault.error.dead) == (phase, 0.3, False)
    assert host.state("guest") is PluginState.ERROR
    with pytest.raises(PluginError, match="load it again"):
        plugin.setup(None)


def test_an_import_that_does_not_end(tier: str, load: Load) -> None:
    host = started(load("while True: pass", tier=tier, setup_timeout=0.3))
    assert isinstance(host.errors()[0].error, PluginTimeout)


def test_javascript_that_does_not_end(load: Load) -> None:
    house.require("javascript guest")
    source = 'export default {manifest: {id: "guest", version: "1.0.0"}, setup() { for (;;); }};'
    host = started(load(source, "guest.mjs", setup_timeout=0.3))
    assert isinstance(host.errors()[0].error, PluginTimeout)


DEEP = """
def setup(ctx):
    import json, sys
    sys.setrecursionlimit(10**7)
    deep = []
    for _ in range(500_000): deep = [deep]
    json.dumps(deep)
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "guest_error"),
        ("raise SystemExit(0)", "setup of plugin 'guest' ended"),
        ("import os\nos._exit(3)", "setup of plugin 'guest' ended as"),
        ("def setup(ctx): raise SystemExit(3)", "guest_error"),
        ("def setup(ctx): raise SystemExit(0)", "setup of plugin 'guest' ended"),
        ("def setup(ctx):\n    import os\n    os._exit(0)", "setup of plugin 'guest' ended"),
        ("def setup(ctx):\n    import os\n    os.abort()", "setup of plugin 'guest' ended as"),
        ("def setup(ctx): raise BaseException('mine')", "guest_error"),
        ("setup = 5", "guest_error"),
        ("def setup(ctx): return b'x' * (1 << 30)", "memory"),
        ("syntax error", "SyntaxError"),
        (DEEP, "setup of plugin 'guest' ended as crashed"),
    ],
    ids=[
        "import",
        "import exit",
        "import exit 0",
        "import _exit",
        "exit",
        "exit 0",
        "_exit",
        "abort",
        "base",
        "no function",
        "memory",
        "syntax",
        "stack",
    ],
)
def test_a_plugin_that_crashes_is_an_error_and_the_host_goes_on(source: str, words: str, tier: str, load: Load) -> None:
    host = DefaultPluginHost()
    host.register(load(source, tier=tier))
    host.register(_Other())
    assert host.start() == {"guest": PluginState.ERROR, "other": PluginState.STARTED}
    (fault,) = host.errors()
    assert isinstance(fault.error, PluginError)
    assert words in str(fault.error)
    host.stop()
    assert host.state("other") is PluginState.STOPPED


class _Other:
    def __init__(self) -> None:
        self.manifest = {"id": "other"}


def test_memory_is_128_mib_unless_given(tier: str, load: Load) -> None:
    source = "def setup(ctx):\n    held = bytearray(100 << 20)\n    held[::4096] = b'x' * len(held[::4096])"
    assert started(load(source, tier=tier)).errors() == ()
    host = started(load(source.replace("100", "160"), tier=tier))
    assert "memory" in str(host.errors()[0].error)
    assert started(load(source.replace("100", "160"), tier=tier, limits={"memory": 256 << 20})).errors() == ()


#: Each level takes some 4 KiB of the C stack, and no more of Python's own recursion than is allowed.
RECURSE = """
import sys
sys.setrecursionlimit(100_000)
def down(n): return 0 if n == 0 else sorted([0], key=lambda _: down(n - 1))[0]
"""


@pytest.mark.parametrize("tier", ["worker", "confined", "isolated"])
def test_its_stack_is_4_mib(tier: str, load: Load) -> None:
    """What fits into twice as much, as other guests have it, ends a plugin; what fits into it does not."""
    house.require(f"{tier} tier")
    with fastness.Sandbox(tier=tier) as sandbox:
        control = sandbox.run(f"{RECURSE}\ndown(1_400)")
    assert control.outcome.kind is OutcomeKind.OK, control.outcome
    source = f"{RECURSE}\ndef setup(ctx):\n    import resource\n    down(700)\n"
    shown = "    ctx.provide('out', list(resource.getrlimit(resource.RLIMIT_STACK)))"
    assert provided(load(source + shown, tier=tier)) == [4 << 20, 4 << 20]
    host = started(load(source + "    down(1_400)", tier=tier))
    assert "ended as crashed" in str(host.errors()[0].error)


def test_its_calls_are_bounded(load: Load) -> None:
    plugin = load("def setup(ctx):\n    while True: ctx.lookup('a')", limits={"calls": 50})
    host = started(plugin)
    assert "call_limit" in str(host.errors()[0].error)
    assert len(plugin.audit()) == 50


def test_whoever_closes_it_ends_a_phase_that_hangs(tier: str, load: Load) -> None:
    plugin = load("def setup(ctx):\n    ctx.log('info', 'in')\n    while True: pass", tier=tier, setup_timeout=60)
    inside = threading.Event()
    host = DefaultPluginHost(on_log=lambda *row: inside.set())
    host.register(plugin)
    thread = threading.Thread(target=host.start)
    thread.start()
    assert inside.wait(60)
    plugin.close()
    thread.join(20)
    assert not thread.is_alive()
    assert host.state("guest") is PluginState.ERROR


def test_a_policy_around_it_ends_it_at_its_time(tier: str, load: Load) -> None:
    outer = fastness.sandbox_plugin(
        load("def setup(ctx):\n    while True: pass", tier=tier, setup_timeout=60), {"setup_timeout": 0.5}
    )
    host = started(outer)
    error = host.errors()[0].error
    assert isinstance(error, PluginTimeout)
    assert not error.dead
    assert host.state("guest") is PluginState.ERROR


def test_a_host_whose_ctx_fails_is_not_the_end_of_the_host(load: Load) -> None:
    class Broken:
        def lookup(self, name: str) -> Any:
            raise RuntimeError("/secret/path of the host")

        def log(self, level: str, text: str) -> None:
            said.append(text)

    said: list[str] = []
    plugin = load("def setup(ctx):\n    try: ctx.lookup('a')\n    except ctx.Refused as e: ctx.log('info', str(e))")
    plugin.setup(Broken())
    assert said
    assert "/secret/path" not in said[0]


ENDS_LATER = """
import os, threading, time

def start(ctx):
    def later():
        time.sleep(0.2)
        os._exit(0)
    threading.Thread(target=later, daemon=True).start()
"""


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_guest_that_ends_between_phases_is_an_error_as_soon_as_somebody_looks(
    wrapped: bool, tier: str, load: Load
) -> None:
    if tier == "wasm":
        pytest.skip("between two phases nothing of a guest runs in this tier")
    plugin: Any = load(ENDS_LATER, tier=tier)
    if wrapped:
        plugin = fastness.sandbox_plugin(plugin, EVERYTHING)
    host = started(plugin)
    assert host.state("guest") is PluginState.STARTED
    ends = time.monotonic() + 20
    while host.state("guest") is PluginState.STARTED:
        assert time.monotonic() < ends
        time.sleep(0.02)
    (fault,) = host.errors()
    assert (host.state("guest"), fault.phase) == (PluginState.ERROR, "running")
    assert "its guest has ended" in str(fault.error)
    host.stop()
    assert len(host.errors()) == 1


def test_between_phases_it_reaches_nothing(load: Load) -> None:
    source = """
import threading, time
def setup(ctx):
    def later():
        time.sleep(0.3)
        try:
            ctx.lookup("late")
        except Exception:
            pass
    threading.Thread(target=later, daemon=True).start()
"""
    plugin = load(source, tier="isolated")
    host = DefaultPluginHost()
    host.register(plugin)
    plugin.setup(host._entries["guest"].ctx)
    time.sleep(0.8)
    assert plugin.audit() == ()


# what it can reach

REACH = """
import os, socket


def setup(ctx):
    out = {"env": sorted(os.environ), "mine": open("data.txt").read(), "net": hasattr(ctx, "net")}
    for name, do in {
        "outside": lambda: open(OUTSIDE).read(),
        "write": lambda: open(OUTSIDE, "w"),
        "socket": lambda: socket.create_connection(("127.0.0.1", PORT), 2),
        "process": lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "true"], {}),
        "native": lambda: __import__("ctypes").CDLL(None).getpid(),
    }.items():
        try:
            do()
            out[name] = "done"
        except BaseException as error:
            out[name] = type(error).__name__
    ctx.provide("out", out)
"""


@pytest.mark.parametrize("network", [False, True])
def test_it_reads_its_own_folder_and_nothing_else(
    network: bool, tier: str, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tier == "worker":
        pytest.skip("the same user and the same files are the honest limit of this tier")
    import socket

    monkeypatch.setenv("CANARY", "of the host")
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "data.txt").write_text("mine")
    outside = tmp_path / "secret.txt"
    outside.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # The control: from here both can be had.
        socket.create_connection(("127.0.0.1", port)).close()
        assert outside.read_text() == "secret"
        source = REACH.replace("OUTSIDE", repr(str(outside))).replace("PORT", str(port))
        out = provided(load(source, tier=tier, allow_network=network))
    assert out["mine"] == "mine"
    assert out["net"] is network
    for name in ("outside", "write", "socket", "process"):
        assert out[name] != "done", (name, out)
    assert "CANARY" not in out["env"]
    assert outside.read_text() == "secret"


def test_what_it_writes_stays_with_it(tier: str, load: Load, tmp_path: Path) -> None:
    source = "def setup(ctx):\n    open('guest.py', 'w').write('x')\n    open('new', 'w').write('x')"
    assert started(load(source, tier=tier)).errors() == ()
    assert sorted(os.listdir(tmp_path / "plugin")) == ["guest.py"]
    assert (tmp_path / "plugin" / "guest.py").read_text() == HEAD + source


NET = """
def setup(ctx):
    out = []
    for url in ("http://127.0.0.1/", "http://169.254.169.254/latest/", "http://[::ffff:10.0.0.1]/", "http://0/",
                "ftp://example.com/", "https://example.com:8443/"):
        try:
            ctx.net.request("GET", url)
            out.append("done")
        except ctx.Refused as error:
            out.append(error.code)
    ctx.provide("out", out)
"""


def test_the_network_that_may_be_allowed_is_behind_the_guard(tier: str, load: Load) -> None:
    pytest.importorskip("httpcore2")
    plugin = load(NET, tier=tier, allow_network=True)
    assert provided(plugin) == ["address", "address", "address", "address", "host", "host"]
    assert "net" not in {row.operation for row in plugin.audit()}


def test_there_are_no_links_out_of_its_folder(load: Load, tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(folder / "pipe")
    plugin = load("import os\ndef setup(ctx): ctx.provide('out', sorted(os.listdir('.')))")
    assert [name for name in provided(plugin) if name in ("link", "pipe")] == []
    assert {line.partition(":")[0] for line in plugin.left_out} == {"link", "pipe"}


# loading


def test_nothing_runs_while_it_is_loaded(load: Load, tmp_path: Path) -> None:
    before = set(procs.descendants(os.getpid()))
    plugin = load(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit")
    assert plugin.manifest.id == "guest"
    assert plugin.results == {}
    plugin.close()
    assert not (tmp_path / "ran").exists()
    _gone(before)


def _gone(before: set[int]) -> None:
    ends = time.monotonic() + 10
    while set(procs.descendants(os.getpid())) - before:
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"policy": {"lookup": "x"}}, "policy.lookup"),
        ({"setup_timeout": -1}, "setup_timeout"),
        ({"tier": "mediated"}, "tier"),
        ({"tier": "local"}, "tier"),
        ({"tier": "strongest"}, "tier"),
        ({"limits": {"memory": 1}}, "memory"),
        ({"limits": {"stack": 1}}, "limits.stack"),
        ({"allow_network": "yes"}, "allow_network"),
        ({"read_root": "/nowhere"}, "read_root"),
        ({"read_root": "/usr/bin"}, "read_root"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(options: dict[str, Any], field: str, load: Load) -> None:
    before = set(procs.descendants(os.getpid()))
    with pytest.raises(ConfigurationError) as caught:
        load("x = 1", **options)
    assert caught.value.field == field
    _gone(before)


def test_files_that_are_no_plugins(load: Load, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no MANIFEST"):
        load("# a manifest, it says\n")
    with pytest.raises(ManifestError, match="literals"):
        load('MANIFEST = {"id": open("/etc/passwd").read(), "version": "1.0.0"}')
    with pytest.raises(ManifestError, match="id"):
        load('MANIFEST = {"id": "../up", "version": "1.0.0"}')
    with pytest.raises(ManifestError, match="ends in"):
        load("manifest", "guest.txt")
    with pytest.raises(StagingError, match="no such file"):
        IsolatedPlugin.load(tmp_path / "plugin" / "absent.py")
    (tmp_path / "plugin" / "link.py").symlink_to(tmp_path / "plugin" / "guest.py")
    with pytest.raises(StagingError, match="link"):
        IsolatedPlugin.load(tmp_path / "plugin" / "link.py")
    with pytest.raises(ManifestError, match="none in the folder"):
        IsolatedPlugin.load(tmp_path / "plugin")


def test_a_tier_that_does_not_hold_is_no_other_tier(load: Load) -> None:
    with pytest.raises((TierUnavailable, ConfigurationError)):
        load("x = 1", tier="vm")
    with pytest.raises(ConfigurationError, match="runtime"):
        source = 'export const manifest = {id: "guest", version: "1.0.0"};'
        house.require("javascript guest")
        load(source, "guest.mjs", tier="isolated")


def test_a_forked_child_leaves_it_alone(load: Load) -> None:
    plugin = load("def setup(ctx): pass")
    host = started(plugin)
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            plugin.close()
            try:
                plugin.start(None)
            except ConfigurationError:
                code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    host.stop()
    assert host.errors() == ()
    assert plugin.results["stop"].outcome.kind is OutcomeKind.OK
