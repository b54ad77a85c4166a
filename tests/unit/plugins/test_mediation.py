"""Mediation: every operation of a plugin is decided by its policy, written down, and held to the time of its phase."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fastness
from fastness.audit.reading import Query, records
from fastness.broker.trail import Intent
from fastness.errors import (
    BackendError,
    ConfigurationError,
    ManifestError,
    PluginError,
    PluginTimeout,
    PluginViolation,
)
from fastness.manifest import parse
from fastness.plugins import ledger, phases
from fastness.plugins import records as plugin_records
from fastness.plugins.ledger import Decision, MediationPolicy
from fastness.plugins.mediation import SandboxedPlugin, sandbox_plugin
from fastness.plugins.words import Answer
from fastness.runner import trail as trails


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own, so that its audit trail is one too."""
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(made))
    yield made
    log = trails._logs.pop((str(made / "data" / "audit.db"), str(made / "config" / "audit.key")), None)
    if log is not None:
        log.close()


class Ctx:
    """A host that notes what reaches it."""

    def __init__(self, **known: Any) -> None:
        self.known = {name.replace("_", ":"): value for name, value in known.items()}
        self.reached: list[tuple[Any, ...]] = []

    def lookup(self, name: str) -> Any:
        self.reached.append(("lookup", name))
        return self.known.get(name)

    def provide(self, name: str, value: Any) -> None:
        self.reached.append(("provide", name, value))

    def declare_capability(self, tag: str) -> None:
        self.reached.append(("declare", tag))

    def log(self, level: str, text: str) -> None:
        self.reached.append(("log", level, text))


class Plugin:
    def __init__(self, **phases: Any) -> None:
        self.manifest = {"id": "mine", "version": "1.0.0"}
        for phase, function in phases.items():
            setattr(self, phase, function)


def rows(plugin: SandboxedPlugin) -> list[tuple[str, str, str]]:
    return [(row.operation, row.target, row.decision) for row in plugin.audit()]


def tries(*names: str, operation: str = "lookup") -> Any:
    def setup(ctx: Any) -> None:
        for name in names:
            getattr(ctx, operation)(name)

    return setup


# the policy


def test_without_a_policy_nothing_is_allowed_and_nothing_reaches_the_host() -> None:
    for operation in ("lookup", "declare_capability"):
        ctx = Ctx()
        plugin = sandbox_plugin(Plugin(setup=tries("a:b", operation=operation)))
        with pytest.raises(PluginViolation, match="list is empty") as caught:
            plugin.setup(ctx)
        assert (caught.value.operation, caught.value.target, caught.value.plugin) == (operation, "a:b", "mine")
        assert rows(plugin) == [(operation, "a:b", "denied")]
        assert ctx.reached == []
    plugin = sandbox_plugin(Plugin(setup=lambda ctx: ctx.provide("a:b", 1)), {})
    with pytest.raises(PluginViolation):
        plugin.setup(Ctx())


def test_what_the_lists_name_goes_through_with_its_answer() -> None:
    ctx, seen = Ctx(cfg_ttl=60), []

    def setup(given: Any) -> None:
        seen.append(given.lookup("cfg:ttl"))
        seen.append(given.lookup("cfg:none"))
        given.provide("tools:x", {"a": 1})
        given.declare_capability("tools")
        given.log("info", "ready")

    rules = {"lookup": ["cfg:*"], "provide": ["tools:?"], "declare": ["tools"]}
    plugin = fastness.sandbox_plugin(Plugin(setup=setup), rules)
    plugin.setup(ctx)
    assert seen == [60, None]
    assert ctx.reached[2:] == [("provide", "tools:x", {"a": 1}), ("declare", "tools"), ("log", "info", "ready")]
    assert [row.decision for row in plugin.audit()] == ["allowed"] * 4
    assert all(abs(row.at - time.time()) < 60 and row.reason for row in plugin.audit())
    assert plugin.sandbox.audit() == plugin.audit()


@pytest.mark.parametrize(
    ("pattern", "name", "good"),
    [
        ("cfg:*", "cfg:", True),
        ("cfg:*", "cfg:a:b", True),
        ("cfg:*", "xcfg:a", False),
        ("cfg:?", "cfg:ab", False),
        ("cfg:?", "cfg:a", True),
        ("cfg:a", "cfg:A", False),
        ("cfg:a", "cfg:a\n", False),
        ("cfg:a", "cfg:a\0", False),
        ("*", "a" * 200, True),
        ("*", "a" * 201, False),
        ("*a*a*a*a*a*a*a*b", "a" * 200, False),
    ],
)
def test_patterns(pattern: str, name: str, good: bool) -> None:
    plugin = sandbox_plugin(Plugin(setup=tries(name)), {"lookup": [pattern]})
    if good:
        plugin.setup(Ctx())
    else:
        with pytest.raises(PluginViolation):
            plugin.setup(Ctx())


def test_a_list_allows_its_own_operation_alone() -> None:
    plugin = sandbox_plugin(Plugin(setup=tries("a")), {"provide": ["*"], "declare": ["*"]})
    with pytest.raises(PluginViolation, match="lookup list is empty"):
        plugin.setup(Ctx())


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"lookup": "cfg:*"}, "policy.lookup"),
        ({"lookup": [1]}, "policy.lookup"),
        ({"lookup": [""]}, "policy.lookup"),
        ({"provide": ["a b"]}, "policy.provide"),
        ({"declare": None}, "policy.declare"),
        ({"max_provides": -1}, "policy.max_provides"),
        ({"max_provides": True}, "policy.max_provides"),
        ({"setup_timeout": -1}, "policy.setup_timeout"),
        ({"start_timeout": float("nan")}, "policy.start_timeout"),
        ({"stop_timeout": "5"}, "policy.stop_timeout"),
        ({"on_violation": 1}, "policy.on_violation"),
        ({"lookups": ["a"]}, "policy.lookups"),
        (["cfg:*"], "policy"),
    ],
)
def test_a_policy_that_is_none_is_refused(given: Any, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        sandbox_plugin(Plugin(), given)
    assert caught.value.field == field


def test_an_unknown_field_has_a_suggestion() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'lookup'"):
        sandbox_plugin(Plugin(), {"lookups": []})


def test_defaults_are_those_of_the_documents() -> None:
    made = MediationPolicy()
    assert (made.provide, made.lookup, made.declare, made.max_provides) == ((), (), (), 16)
    assert (made.setup_timeout, made.start_timeout, made.stop_timeout) == (10, 10, 5)


def test_provides_are_counted() -> None:
    ctx = Ctx()

    def setup(given: Any) -> None:
        for index in range(20):
            given.provide(f"n:{index}", index)

    plugin = sandbox_plugin(Plugin(setup=setup), {"provide": ["n:*"]})
    with pytest.raises(PluginViolation, match="16 times"):
        plugin.setup(ctx)
    assert len(ctx.reached) == 16
    # One that is denied is not counted.
    plugin = sandbox_plugin(
        Plugin(setup=lambda c: [_quietly(c.provide, "x", 1), c.provide("n:1", 1)]),
        {"provide": ["n:*"], "max_provides": 1},
    )
    plugin.setup(Ctx())


def _quietly(function: Any, *arguments: Any) -> None:
    try:
        function(*arguments)
    except PluginViolation:
        pass


def test_provides_are_counted_over_threads() -> None:
    ctx = Ctx()

    def setup(given: Any) -> None:
        threads = [threading.Thread(target=_quietly, args=(given.provide, "n", index)) for index in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    sandbox_plugin(Plugin(setup=setup), {"provide": ["n"], "max_provides": 8}).setup(ctx)
    assert len(ctx.reached) == 8


# names that are none


class Sly(str):
    def __len__(self) -> int:
        raise AssertionError("a method of a plugin's object was called")

    __eq__ = __hash__ = __getitem__ = __len__  # type: ignore[assignment]  # each would be code of the plugin's


@pytest.mark.parametrize(
    "name",
    [None, 5, b"cfg:a", ["cfg:a"], Sly("cfg:a"), object()],
    ids=["none", "int", "bytes", "list", "sly", "object"],
)
def test_a_name_that_is_no_text_is_denied(name: Any) -> None:
    plugin = sandbox_plugin(Plugin(setup=tries(name)), {"lookup": ["*"]})
    ctx = Ctx()
    with pytest.raises(PluginViolation, match="must be text"):
        plugin.setup(ctx)
    assert ctx.reached == []


@pytest.mark.parametrize("name", ["\ud800", "a\x1b[2Jb", "a" * 100_000, "a\u202eb"])
def test_what_cannot_be_seen_is_spelled_out_in_rows_and_messages(name: str) -> None:
    plugin = sandbox_plugin(Plugin(setup=tries(name)), {"lookup": ["cfg:*"]})
    with pytest.raises(PluginViolation) as caught:
        plugin.setup(Ctx())
    (row,) = plugin.audit()
    assert row.target.isprintable()
    assert len(row.target) <= 1000
    str(caught.value).encode()


# who is told


def test_on_violation_gets_each_denied_row_and_no_other() -> None:
    seen: list[Decision] = []

    def setup(ctx: Any) -> None:
        ctx.lookup("cfg:a")
        _quietly(ctx.lookup, "secret")
        _quietly(ctx.declare_capability, "admin")

    plugin = sandbox_plugin(Plugin(setup=setup), {"lookup": ["cfg:*"], "on_violation": seen.append})
    plugin.setup(Ctx())
    assert [(row.operation, row.target) for row in seen] == [("lookup", "secret"), ("declare_capability", "admin")]


def test_an_on_violation_that_fails_does_not_let_anything_through() -> None:
    def broken(row: Decision) -> None:
        raise ValueError("telemetry is down")

    ctx = Ctx()
    plugin = sandbox_plugin(Plugin(setup=tries("a")), {"on_violation": broken})
    with pytest.raises(PluginViolation) as caught:
        plugin.setup(ctx)
    assert "telemetry is down" in caught.value.__notes__[0]
    assert ctx.reached == []


def test_the_latest_rows_are_kept_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "ROWS_MAX", 5)
    plugin = sandbox_plugin(Plugin(setup=tries(*map(str, range(8)))), {"lookup": ["*"]})
    plugin.setup(Ctx())
    assert [row.target for row in plugin.audit()] == ["3", "4", "5", "6", "7"]
    assert plugin.sandbox.dropped == 3


def test_decisions_are_in_the_audit_trail(home: Path) -> None:
    def setup(ctx: Any) -> None:
        ctx.provide("tools:x", "a payload")
        _quietly(ctx.lookup, "secret")

    sandbox_plugin(Plugin(setup=setup), {"provide": ["tools:*"]}).setup(Ctx())
    found = [
        (row.plugin, row.capability, row.op, row.target, row.phase, row.decision, row.code)
        for row in records(str(home / "data" / "audit.db"))
    ]
    assert found == [
        ("loaded:mine", "plugin", "setup", "mediated", "intent", "allowed", ""),
        ("loaded:mine", "ctx", "provide", "tools:x", "intent", "allowed", ""),
        ("loaded:mine", "ctx", "provide", "tools:x", "outcome", "allowed", ""),
        ("loaded:mine", "ctx", "lookup", "secret", "intent", "refused", "not_granted"),
        ("loaded:mine", "plugin", "setup", "mediated", "outcome", "allowed", ""),
    ]


def test_no_installed_plugin_has_a_name_of_these(home: Path) -> None:
    """Whoever asks the trail for an installed plugin finds no row of a module that says to be it."""
    name = plugin_records.recorded_as("mine")
    with pytest.raises(ManifestError):
        parse({"id": name, "version": "1.0.0", "api": 1, "runtime": "data"}, {})
    assert parse({"id": "mine", "version": "1.0.0", "api": 1, "runtime": "data"}, {}).id == "mine"
    sandbox_plugin(Plugin(setup=tries("a")), {"lookup": ["*"]}).setup(Ctx())
    path = str(home / "data" / "audit.db")
    assert list(records(path, Query(plugin="mine"))) == []
    assert len(list(records(path, Query(plugin=name)))) == 4


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        (lambda ctx: 1 / 0, "failed"),
        (lambda ctx: ctx.lookup("secret"), "not_granted"),
        (lambda ctx: asyncio.sleep(3600), "timeout"),
    ],
    ids=["failed", "denied", "timeout"],
)
def test_how_a_phase_ended_is_in_the_audit_trail(setup: Any, code: str, home: Path) -> None:
    with pytest.raises((ZeroDivisionError, PluginError)):
        sandbox_plugin(Plugin(setup=setup), {"setup_timeout": 0.1}).setup(Ctx())
    rows = [row for row in records(str(home / "data" / "audit.db")) if row.capability == "plugin"]
    assert [(row.op, row.phase, row.code) for row in rows] == [("setup", "intent", ""), ("setup", "outcome", code)]


class Full:
    """A trail without room for any row of ctx, or for any at all."""

    def __init__(self, capability: str) -> None:
        self.capability = capability

    def intend(self, intent: Intent) -> int:
        if intent.capability == self.capability:
            raise BackendError("writing the audit trail", "no space left")
        return 1

    def done(self, *given: Any, **named: Any) -> None: ...


@pytest.mark.parametrize("capability", ["ctx", "plugin"])
def test_what_cannot_be_recorded_does_not_happen(capability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_records, "open_trail", lambda: Full(capability))
    ran: list[int] = []
    ctx = Ctx()
    plugin = sandbox_plugin(Plugin(setup=lambda given: (ran.append(1), given.lookup("a"))), {"lookup": ["*"]})
    with pytest.raises(BackendError, match="no space left"):
        plugin.setup(ctx)
    assert ctx.reached == []
    assert len(ran) == (capability == "ctx")


# sync and async


def test_in_an_event_loop_calls_are_awaited_as_in_a_guest() -> None:
    seen: list[Any] = []

    async def setup(ctx: Any) -> None:
        pending = ctx.lookup("cfg:ttl")
        assert type(pending) is Answer
        seen.append(await pending)
        denied = ctx.lookup("secret")
        try:
            await denied
        except ctx.Refused as error:
            seen.append(error.code)
        await ctx.provide("tools:x", 1)

    ctx = Ctx(cfg_ttl=5)
    sandbox_plugin(Plugin(setup=setup), {"lookup": ["cfg:*"], "provide": ["*"]}).setup(ctx)
    assert seen == [5, "not_granted"]
    assert ctx.reached[-1] == ("provide", "tools:x", 1)


def test_a_host_that_runs_a_loop_may_set_plugins_up() -> None:
    seen = []

    async def setup(ctx: Any) -> None:
        await asyncio.sleep(0)
        seen.append(await ctx.lookup("a"))

    async def main() -> None:
        sandbox_plugin(Plugin(setup=setup), {"lookup": ["a"]}).setup(Ctx(a=1))

    asyncio.run(main())
    assert seen == [1]


# composition


def test_two_policies_allow_what_both_do() -> None:
    inner = sandbox_plugin(Plugin(setup=tries("cfg:a", "cfg:b")), {"lookup": ["cfg:*"]})
    outer = sandbox_plugin(inner, {"lookup": ["cfg:a"]})
    ctx = Ctx()
    with pytest.raises(PluginViolation) as caught:
        outer.setup(ctx)
    assert caught.value.target == "cfg:b"
    assert ctx.reached == [("lookup", "cfg:a")]
    assert rows(inner) == [("lookup", "cfg:a", "allowed"), ("lookup", "cfg:b", "allowed")]
    assert rows(outer) == [("lookup", "cfg:a", "allowed"), ("lookup", "cfg:b", "denied")]


def test_a_module_is_a_plugin() -> None:
    module = ModuleType("some_plugin")
    module.MANIFEST = {"id": "some"}  # type: ignore[attr-defined]  # what a module's source would do
    module.setup = tries("a")  # type: ignore[attr-defined]  # as above
    ctx = Ctx()
    plugin = sandbox_plugin(module, {"lookup": ["a"]})
    plugin.setup(ctx)
    plugin.start(ctx)
    plugin.stop(ctx)
    assert plugin.id == "some"
    assert ctx.reached == [("lookup", "a")]


@pytest.mark.parametrize("plugin", [object(), type("Nameless", (), {"manifest": {"id": ""}})(), None, "text"])
def test_what_is_no_plugin_is_refused(plugin: Any) -> None:
    with pytest.raises(ConfigurationError, match="manifest"):
        sandbox_plugin(plugin)


def test_a_phase_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="setup of plugin 'mine'"):
        sandbox_plugin(Plugin(setup=5))


def test_the_inner_ctx_is_no_attribute() -> None:
    seen: list[Any] = []
    ctx = Ctx()
    sandbox_plugin(Plugin(setup=seen.append)).setup(ctx)
    assert all(getattr(seen[0], name) is not ctx for name in dir(seen[0]))
    with pytest.raises(AttributeError):
        seen[0].workspace_root  # noqa: B018  # that it is absent is what is tested


# time


def test_a_setup_that_hangs_is_a_timeout_and_the_plugin_is_dead(home: Path) -> None:
    stop, ctx, late = threading.Event(), Ctx(), []

    def setup(given: Any) -> None:
        stop.wait()
        try:
            given.lookup("a")
        except PluginViolation as error:
            late.append(error.reason)

    plugin = sandbox_plugin(Plugin(setup=setup, start=tries("a")), {"lookup": ["*"], "setup_timeout": 0.05})
    try:
        with pytest.raises(PluginTimeout, match=r"longer than its 0\.05 s") as caught:
            plugin.setup(ctx)
        assert caught.value.dead
        assert plugin.dead
        (found,) = phases.stuck()
        assert (found.plugin, found.phase, found.process) == ("mine", "setup", os.getpid())
        with pytest.raises(PluginError, match="dead"):
            plugin.start(ctx)
    finally:
        stop.set()
    _until(lambda: not phases.stuck() and bool(late))
    # What it holds of its host refuses it, whenever it comes back.
    assert late == ["its setup took longer than it may"]
    assert ctx.reached == []
    assert os.listdir(home / "runtime") == []


def test_a_coroutine_past_its_time_is_cancelled_and_leaves_no_thread() -> None:
    async def setup(ctx: Any) -> None:
        await asyncio.sleep(3600)

    plugin = sandbox_plugin(Plugin(setup=setup), {"setup_timeout": 0.05})
    with pytest.raises(PluginTimeout) as caught:
        plugin.setup(Ctx())
    assert not caught.value.dead
    assert not plugin.dead
    assert phases.stuck() == []


def test_each_phase_has_its_own_time() -> None:
    stop = threading.Event()
    for phase in ("setup", "start", "stop"):
        plugin = sandbox_plugin(Plugin(**{phase: lambda ctx: stop.wait()}), {f"{phase}_timeout": 0.02})
        with pytest.raises(PluginTimeout, match=phase):
            getattr(plugin, phase)(Ctx())
    stop.set()
    _until(lambda: not phases.stuck())


def test_zero_is_no_limit() -> None:
    done = []
    rules = {"setup_timeout": 0, "start_timeout": 0, "stop_timeout": 0}
    plugin = sandbox_plugin(Plugin(setup=lambda ctx: (time.sleep(0.2), done.append(1))), rules)
    plugin.setup(Ctx())
    assert done == [1]


def test_a_phase_runs_in_a_thread_of_its_own() -> None:
    seen: list[int] = []
    sandbox_plugin(Plugin(setup=lambda ctx: seen.append(threading.get_ident()))).setup(Ctx())
    assert seen != [threading.get_ident()]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_would_end_the_process_is_an_error_of_the_plugin(error: BaseException) -> None:
    def setup(ctx: Any) -> None:
        raise error

    with pytest.raises(PluginError, match="tried to end its process"):
        sandbox_plugin(Plugin(setup=setup)).setup(Ctx())


def test_its_own_errors_come_out_as_they_are() -> None:
    def setup(ctx: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sandbox_plugin(Plugin(setup=setup)).setup(Ctx())


class _Words(str):
    """A text of a class of its own, which cannot be printed."""

    __slots__ = ()

    def __str__(self) -> str:
        raise SystemExit(3)

    def __repr__(self) -> str:
        raise SystemExit(3)


class _Quiet(Exception):
    """An error whose class does something whenever somebody looks at it."""

    def __init__(self, act: Any) -> None:
        self.act = act

    def __str__(self) -> str:
        return str(self.act())


def _raises(error: BaseException) -> Any:
    def phase(ctx: Any) -> None:
        raise error

    return phase


def test_the_text_of_an_error_is_made_in_the_time_of_its_phase(home: Path) -> None:
    """One that takes for ever is a timeout like any other, and holds up nobody but the plugin's thread."""
    hold = threading.Event()
    plugin = sandbox_plugin(Plugin(setup=_raises(_Quiet(hold.wait))), {"setup_timeout": 0.05})
    try:
        with pytest.raises(PluginTimeout) as caught:
            plugin.setup(Ctx())
        assert caught.value.dead
    finally:
        hold.set()
    _until(lambda: not phases.stuck())


def _leaves() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (_Quiet(lambda: "a text"), "raised _Quiet: a text"),
        (_Quiet(lambda: 1 // 0), "raised _Quiet: its text cannot be read"),
        (_Quiet(_leaves), "raised _Quiet: its text cannot be read"),
        (ValueError(_Words("a word")), "raised ValueError: its text cannot be read"),
        (OSError(2, "no", _Words("a file")), "raised FileNotFoundError: its text cannot be read"),
        (SystemExit(_Quiet(_leaves)), "tried to end its process: SystemExit(its text cannot be read)"),
    ],
)
def test_its_host_gets_a_text_and_no_class_that_makes_one(error: BaseException, words: str) -> None:
    """What a plugin's own class does to have a text is done once, in its own thread; an exit of it is no exit."""
    with pytest.raises(PluginError) as caught:
        sandbox_plugin(Plugin(setup=_raises(error))).setup(Ctx())
    assert type(caught.value) is PluginError
    assert words in str(caught.value)
    assert caught.value.__cause__ is None
    assert "test_mediation.py, line" in caught.value.__notes__[0]


def test_what_came_before_an_error_is_told_only_where_it_is_plain() -> None:
    """Whoever prints an error prints its causes too."""

    def setup(ctx: Any) -> None:
        try:
            raise _Quiet(_leaves)
        except _Quiet as error:
            raise ValueError("plain") from error

    def ordinary(ctx: Any) -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("plain") from error

    with pytest.raises(ValueError, match="plain") as caught:
        sandbox_plugin(Plugin(setup=setup)).setup(Ctx())
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    # The control.
    with pytest.raises(ValueError, match="plain") as caught:
        sandbox_plugin(Plugin(setup=ordinary)).setup(Ctx())
    assert isinstance(caught.value.__cause__, KeyError)


def test_after_stop_its_ctx_refuses_everything() -> None:
    kept: list[Any] = []
    ctx = Ctx()
    plugin = sandbox_plugin(Plugin(setup=kept.append), {"lookup": ["*"]})
    plugin.setup(ctx)
    kept[0].lookup("a")
    plugin.stop(ctx)
    with pytest.raises(PluginViolation, match="stopped"):
        kept[0].lookup("a")
    assert ctx.reached == [("lookup", "a")]


def test_a_note_of_a_thread_that_has_ended_is_removed(home: Path) -> None:
    folder = home / "runtime"
    folder.mkdir(mode=0o700)
    (folder / "stuck-1-1-1").write_text(
        '{"plugin":"a","phase":"setup","process":1,"thread":1,"started":99999999999,"since":1.0}'
    )
    (folder / "stuck-junk").write_text("junk")
    assert phases.stuck() == []
    assert os.listdir(folder) == ["stuck-junk"]


def _until(done: Any, seconds: float = 20.0) -> None:
    ends = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < ends, "it did not come to be"
        time.sleep(0.01)
