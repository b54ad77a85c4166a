"""The small host: states, what plugins share, errors that it collects, and how a plugin is moved to another tier."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import fastness
from fastness.errors import ConfigurationError, ManifestError, PluginError, PluginTimeout, PluginViolation
from fastness.plugins import phases
from fastness.plugins.isolated import IsolatedPlugin
from fastness.plugins.lifecycle import DefaultPluginHost, PluginState
from fastness.plugins.mediation import SandboxedPlugin, sandbox_plugin
from fastness.runner import trail as trails


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own."""
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(made))
    yield made
    log = trails._logs.pop((str(made / "data" / "audit.db"), str(made / "config" / "audit.key")), None)
    if log is not None:
        log.close()


def plugin(name: str = "a", **phases: Any) -> Any:
    return SimpleNamespace(manifest={"id": name, "version": "1.0.0"}, **phases)


# as before


def test_a_plugin_as_it_is_runs_in_the_callers_thread_with_all_that_the_host_has(tmp_path: Path) -> None:
    seen: list[Any] = []

    def setup(ctx: Any) -> None:
        seen.append(threading.get_ident())
        seen.append(ctx.workspace_root)
        ctx.provide("a:live", seen)
        ctx.declare_capability("anything")

    host = fastness.DefaultPluginHost(tmp_path)
    given = plugin(setup=setup)
    assert host.register(given) is given
    assert seen == []
    assert host.start() == {"a": PluginState.STARTED}
    assert seen == [threading.get_ident(), str(tmp_path)]
    # In one process a live object is what it was.
    assert host.lookup("a:live") is seen
    assert host.declared() == {"anything": ("a",)}
    assert host.stop() == {"a": PluginState.STOPPED}
    assert host.errors() == ()


def test_phases_run_in_order_and_stop_in_the_other() -> None:
    said: list[str] = []

    def all_of(name: str) -> Any:
        return plugin(name, **{p: lambda ctx, p=p: said.append(f"{name}.{p}") for p in ("setup", "start", "stop")})

    with DefaultPluginHost() as host:
        host.register(all_of("a"))
        host.register(all_of("b"))
        host.start()
        host.start()
    assert said == ["a.setup", "b.setup", "a.start", "b.start", "b.stop", "a.stop"]


def test_async_phases_run_to_their_end_with_and_without_a_loop() -> None:
    said: list[Any] = []

    async def setup(ctx: Any) -> None:
        await asyncio.sleep(0)
        await ctx.provide("a:x", 1)
        said.append(await ctx.lookup("a:x"))

    host = DefaultPluginHost()
    host.register(plugin(setup=setup))
    host.start()

    async def main() -> None:
        other = DefaultPluginHost()
        other.register(plugin(setup=setup))
        other.start()

    asyncio.run(main())
    assert said == [1, 1]


def test_it_may_be_started_again_after_it_was_stopped() -> None:
    count = []
    host = DefaultPluginHost()
    host.register(sandbox_plugin(plugin(setup=lambda ctx: (ctx.provide("x", 1), count.append(1))), {"provide": ["x"]}))
    host.start()
    host.stop()
    assert host.lookup("x") is None
    assert host.start() == {"a": PluginState.STARTED}
    assert count == [1, 1]


# errors


class _Broken(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(1), SystemExit(_Broken()), _Broken()])
def test_an_error_is_collected_and_stops_nobody_else(error: BaseException) -> None:
    def setup(ctx: Any) -> None:
        ctx.provide("a:half", 1)
        ctx.declare_capability("half")
        raise error

    host = DefaultPluginHost()
    host.register(plugin("a", setup=setup, start=lambda ctx: pytest.fail("it was called after an error")))
    host.register(plugin("b"))
    assert host.start() == {"a": PluginState.ERROR, "b": PluginState.STARTED}
    (fault,) = host.errors()
    assert (fault.plugin, fault.phase) == ("a", "setup")
    assert isinstance(fault.error, ValueError if isinstance(error, ValueError) else PluginError)
    # What it had provided by then is gone with it.
    assert host.lookup("a:half") is None
    assert host.declared() == {}
    host.stop()
    assert host.state("a") is PluginState.ERROR


def test_a_denial_is_an_error_of_the_plugin() -> None:
    host = DefaultPluginHost()
    held = host.register(plugin(setup=lambda ctx: ctx.lookup("secret")), tier="mediated")
    host.register(plugin("b"))
    assert host.start() == {"a": PluginState.ERROR, "b": PluginState.STARTED}
    assert isinstance(host.errors()[0].error, PluginViolation)
    assert [(row.target, row.decision) for row in held.audit()] == [("secret", "denied")]


def test_a_hang_does_not_stall_the_host_and_is_shown_as_dead() -> None:
    stop = threading.Event()
    host = DefaultPluginHost()
    host.register(plugin(setup=lambda ctx: stop.wait()), policy={"setup_timeout": 0.05})
    host.register(plugin("b"))
    try:
        assert host.start() == {"a": PluginState.DEAD, "b": PluginState.STARTED}
        assert isinstance(host.errors()[0].error, PluginTimeout)
        host.stop()
        assert host.states() == {"a": PluginState.DEAD, "b": PluginState.STOPPED}
    finally:
        stop.set()
    ends = time.monotonic() + 20
    while phases.stuck():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_stop_that_fails_is_collected() -> None:
    host = DefaultPluginHost()
    host.register(plugin(stop=lambda ctx: 1 / 0))
    host.start()
    assert host.stop() == {"a": PluginState.ERROR}
    assert host.errors()[0].phase == "stop"


# what plugins share


def test_what_one_provides_another_looks_up() -> None:
    seen = []
    host = DefaultPluginHost()
    host.provide("cfg:ttl", 60)
    host.register(sandbox_plugin(plugin("a", setup=lambda ctx: ctx.provide("tools:x", {"n": 1})), {"provide": ["*"]}))
    rules = {"lookup": ["tools:*", "cfg:*"]}
    host.register(
        sandbox_plugin(
            plugin("b", start=lambda ctx: seen.extend([ctx.lookup("tools:x"), ctx.lookup("cfg:ttl")])), rules
        )
    )
    host.start()
    assert seen == [{"n": 1}, 60]
    assert host.provided() == {"cfg:ttl": "", "tools:x": "a"}


def test_a_name_that_is_taken_is_not_taken_over() -> None:
    host = DefaultPluginHost()
    host.provide("cfg:ttl", 60)
    host.register(plugin("a", setup=lambda ctx: ctx.provide("tools:x", 1)))
    host.register(plugin("b", setup=lambda ctx: ctx.provide("tools:x", 2)))
    host.register(plugin("c", setup=lambda ctx: ctx.provide("cfg:ttl", 2)))
    states = host.start()
    assert (states["a"], states["b"], states["c"]) == (PluginState.STARTED, PluginState.ERROR, PluginState.ERROR)
    assert (host.lookup("tools:x"), host.lookup("cfg:ttl")) == (1, 60)
    assert "provided by plugin 'a' already" in str(host.errors()[0].error)
    assert "provided by the host already" in str(host.errors()[1].error)
    # Its own it may replace.
    host.register(plugin("d", setup=lambda ctx: (ctx.provide("d", 1), ctx.provide("d", 2))))
    host.start()
    assert host.lookup("d") == 2


def test_what_has_ended_provides_nothing_more() -> None:
    kept: list[Any] = []
    host = DefaultPluginHost()
    host.register(plugin("a", setup=kept.append))
    host.register(plugin("b", setup=lambda ctx: (kept.append(ctx), 1 / 0)))
    host.start()
    kept[0].provide("a:x", 1)
    host.stop()
    for ctx in kept:
        with pytest.raises(PluginError, match="has ended"):
            ctx.provide("late", 1)
        with pytest.raises(PluginError, match="has ended"):
            ctx.declare_capability("late")
    assert (host.provided(), host.declared()) == ({}, {})


@pytest.mark.parametrize("name", ["", None, 5, "a" * 201])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    host = DefaultPluginHost()
    with pytest.raises(PluginError, match="a name is"):
        host.provide(name, 1)


def test_logs() -> None:
    logs: list[tuple[str, str, str]] = []
    host = DefaultPluginHost(on_log=lambda *row: logs.append(row))
    host.register(plugin(setup=lambda ctx: ctx.log("info", "a" * 10_000)))
    host.register(plugin("b", setup=lambda ctx: ctx.log("loud", "x")))
    host.start()
    assert logs == [("a", "info", "a" * 4096)]
    assert "a level is one of" in str(host.errors()[0].error)


def test_without_on_log_they_go_to_the_logger_with_nothing_hidden(caplog: pytest.LogCaptureFixture) -> None:
    host = DefaultPluginHost()
    host.register(plugin(setup=lambda ctx: ctx.log("warning", "a\x1b[2J\nplugin b: forged")))
    host.start()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("fastness.plugins", "WARNING")
    assert record.getMessage() == "plugin a: a\\x1b[2J\\nplugin b: forged"


# registering


def test_an_id_is_taken_once() -> None:
    host = DefaultPluginHost()
    host.register(plugin("a"))
    with pytest.raises(ConfigurationError, match="no other plugin"):
        host.register(plugin("a"))
    assert list(host.states()) == ["a"]
    with pytest.raises(ConfigurationError, match="registered"):
        host.state("b")


SOURCE = """
MANIFEST = {"id": "moved", "version": "1.0.0"}
import os
def setup(ctx):
    ctx.provide("moved:pid", os.getpid())
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "plugin"
    folder.mkdir()
    path = folder / "moved.py"
    path.write_text(SOURCE)
    return path


def module_of(path: Path) -> ModuleType:
    module = ModuleType("moved")
    module.__file__ = str(path)
    exec(path.read_text(), module.__dict__)
    return module


def test_a_path_runs_here_only_where_that_is_asked_for(source: Path) -> None:
    import os

    host = DefaultPluginHost()
    made = host.register(source, tier="mediated", policy={"provide": ["moved:*"]})
    assert isinstance(made, SandboxedPlugin)
    host.start()
    assert host.lookup("moved:pid") == os.getpid()
    host.stop()
    assert "moved" not in sys.modules


def test_code_of_a_path_runs_within_the_time_of_its_setup(source: Path) -> None:
    source.write_text(SOURCE + "import time\ntime.sleep(1)\n")
    host = DefaultPluginHost()
    host.register(source, tier="mediated", policy={"setup_timeout": 0.05})
    assert host.start() == {"moved": PluginState.DEAD}
    ends = time.monotonic() + 20
    while phases.stuck():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_path_that_fails_at_import_is_an_error_like_any(source: Path) -> None:
    source.write_text(SOURCE + "1 / 0\n")
    host = DefaultPluginHost()
    host.register(source, tier="mediated")
    assert host.start() == {"moved": PluginState.ERROR}
    assert isinstance(host.errors()[0].error, ZeroDivisionError)


def test_a_path_without_a_tier_does_not_run_here(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(
        IsolatedPlugin, "load", lambda *given, **named: loaded.append((given, named)) or plugin("moved")
    )
    DefaultPluginHost().register(source, policy={"lookup": ["a"]}, allow_network=True)
    assert loaded == [((source,), {"tier": None, "policy": {"lookup": ["a"]}, "allow_network": True})]


@pytest.mark.parametrize("what", ["path", "module"])
def test_to_move_a_plugin_is_one_setting(what: str, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(
        IsolatedPlugin, "load", lambda path, **named: loaded.append((str(path), named)) or plugin("moved")
    )
    given: Any = source if what == "path" else module_of(source)
    rules = {"provide": ["moved:*"]}
    here = DefaultPluginHost(policies={"moved": rules}, tiers={"moved": "mediated"})
    assert isinstance(here.register(given), SandboxedPlugin)
    assert loaded == []
    there = DefaultPluginHost(policies={"moved": rules}, tiers={"moved": "confined"})
    there.register(given)
    assert loaded == [(str(source), {"tier": "confined", "policy": rules})]


def test_what_is_held_already_is_not_held_twice() -> None:
    held = sandbox_plugin(plugin("a", setup=lambda ctx: ctx.lookup("x")), {"lookup": ["x"]})
    host = DefaultPluginHost(tiers={"a": "mediated"})
    assert host.register(held) is held
    assert host.start() == {"a": PluginState.STARTED}
    other = DefaultPluginHost(policies={"a": {"lookup": ["y"]}})
    assert other.register(held) is not held
    assert other.start() == {"a": PluginState.ERROR}


def test_a_file_that_becomes_another_plugin_is_refused(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    other = plugin("other", in_guest=True, close=lambda: closed.append(True))
    monkeypatch.setattr(IsolatedPlugin, "load", lambda path, **named: other)
    with pytest.raises(ConfigurationError, match="'moved', as it was a moment ago"):
        DefaultPluginHost(tiers={"moved": "worker"}).register(source)
    assert closed == [True]


def test_an_object_cannot_be_moved_and_is_not_run_here_instead() -> None:
    host = DefaultPluginHost(tiers={"a": "isolated"})
    with pytest.raises(ConfigurationError, match="register the path of its file"):
        host.register(plugin("a"))
    assert host.states() == {}


def test_an_unknown_tier_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tier"):
        DefaultPluginHost(tiers={"a": "strongest"})
    with pytest.raises(ConfigurationError, match="tier"):
        DefaultPluginHost().register(plugin("a"), tier="strongest")


def test_options_of_guests_mean_nothing_here(source: Path) -> None:
    with pytest.raises(ConfigurationError, match="limits"):
        DefaultPluginHost().register(plugin("a"), tier="mediated", limits={"memory": 1 << 30})
    with pytest.raises(ConfigurationError, match="read_root"):
        DefaultPluginHost().register(source, tier="mediated", read_root=source.parent)


def test_a_module_without_a_manifest_is_no_plugin(source: Path) -> None:
    source.write_text("def setup(ctx): ...\n")
    with pytest.raises(ManifestError, match="MANIFEST"):
        DefaultPluginHost().register(source, tier="mediated")
