"""``fastness plugin try``: a plugin's whole life from the command line, what is shown of it, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import house
from fastness.cli.main import main
from fastness.plugins import phases
from fastness.plugins.mediation import sandbox_plugin

Capture = pytest.CaptureFixture[str]
SOURCE = """
MANIFEST = {"id": "analytics", "version": "1.0.0"}


def setup(ctx):
    ttl = ctx.lookup("cache:ttl")
    ctx.provide("telemetry:client", {"ttl": ttl, "odd": float("nan")})
    ctx.declare_capability("telemetry")
    ctx.log("info", "ready\\x1b[2J")
    print("hidden")
"""
ALLOWED = ["--allow-lookup", "cache:*", "--allow-provide", "telemetry:*", "--allow-declare", "telemetry"]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    house.require("isolated tier")
    (tmp_path / "plugin").mkdir()
    path = tmp_path / "plugin" / "analytics.py"
    path.write_text(SOURCE)
    return path


def tried(path: Path, *options: str) -> int:
    return main(["plugin", "try", str(path), *options])


def body(path: Path, capsys: Capture, *options: str) -> dict[str, Any]:
    code = tried(path, "--json", *options)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == code
    return found


def test_what_is_allowed_goes_well(plugin: Path, capsys: Capture) -> None:
    assert tried(plugin, *ALLOWED, "--lookup-value", "cache:ttl=60") == 0
    shown = capsys.readouterr()
    assert "analytics 1.0.0 in the tier isolated: stopped" in shown.out
    for line in ("provides telemetry:client: {'ttl': 60", "declares telemetry", "log info: ready\\x1b[2J"):
        assert line in shown.out
    assert "\x1b" not in shown.out
    assert shown.err == ""


def test_json(plugin: Path, capsys: Capture) -> None:
    found = body(plugin, capsys, *ALLOWED, "--lookup-value", 'cache:ttl={"a": [1]}')
    assert found["schema"] == 1
    assert (found["plugin"], found["tier"], found["state"], found["exit_code"]) == (
        "analytics",
        "isolated",
        "stopped",
        0,
    )
    assert found["provided"] == {"telemetry:client": {"ttl": {"a": [1]}, "odd": "nan"}}
    assert [(row["operation"], row["target"], row["decision"]) for row in found["audit"]] == [
        ("lookup", "cache:ttl", "allowed"),
        ("provide", "telemetry:client", "allowed"),
        ("declare_capability", "telemetry", "allowed"),
    ]
    assert {phase: one["outcome"] for phase, one in found["phases"].items()} == dict.fromkeys(phases.PHASES, "ok")
    assert (found["errors"], found["denials"], found["left_out"]) == ([], [], [])


def test_a_denial_is_5_and_says_which_option_allows_it(plugin: Path, capsys: Capture) -> None:
    assert tried(plugin, "--allow-lookup", "cache:*") == 5
    shown = capsys.readouterr()
    assert "denied" in shown.out
    # Those that were denied, and none that it has.
    assert [line.strip() for line in shown.err.splitlines() if "--allow" in line] == [
        "--allow-provide telemetry:client",
    ]  # fmt: skip
    # Caught by the plugin, it is one all the same.
    plugin.write_text(SOURCE + "    try: ctx.lookup('secret')\n    except ctx.Refused: pass\n")
    found = body(plugin, capsys, *ALLOWED)
    assert (found["exit_code"], found["state"]) == (5, "stopped")
    assert found["audit"][-1]["reason"].startswith("no pattern")
    assert found["needs"] == ["--allow-lookup secret"]


def test_nothing_is_allowed_by_default(plugin: Path, capsys: Capture) -> None:
    found = body(plugin, capsys)
    assert (found["exit_code"], found["errors"][0]["kind"]) == (5, "PluginViolation")
    assert found["provided"] == {}


@pytest.mark.parametrize(
    ("end", "code", "kind"),
    [
        ("    raise ValueError('mine')", 1, "PluginError"),
        ("    import os; os._exit(0)", 1, "PluginError"),
        ("    raise SystemExit(3)", 1, "PluginError"),
        ("    while True: pass", 4, "PluginTimeout"),
        ("    held = bytearray(1 << 30)", 4, "PluginError"),
    ],
    ids=["raises", "exits", "exit", "spins", "memory"],
)
def test_how_it_ends_is_the_exit_code(end: str, code: int, kind: str, plugin: Path, capsys: Capture) -> None:
    plugin.write_text(SOURCE + end)
    found = body(plugin, capsys, *ALLOWED, "--timeout", "1")
    assert (found["exit_code"], found["errors"][0]["kind"], found["state"]) == (code, kind, "error")


def test_a_crash_at_import_shows_the_guests_own_traceback(plugin: Path, capsys: Capture) -> None:
    plugin.write_text(SOURCE + "\n1 / 0\n")
    assert tried(plugin, *ALLOWED) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["def setup(ctx):\n    deep()\n", "async def setup(ctx):\n    deep()\n"])
def test_a_traceback_is_the_plugin_s_alone(source: str, plugin: Path, capsys: Capture) -> None:
    """No frame of what runs it, of the loop that awaits it, and no path of this machine."""
    plugin.write_text(SOURCE.partition("def setup")[0] + "\ndef deep():\n    1 / 0\n\n\n" + source)
    assert tried(plugin, *ALLOWED) == 1
    files = re.findall(r'File "([^"]*)", line \d+, in (\w+)', capsys.readouterr().err)
    assert [(path.rpartition("/")[2], name) for path, name in files] == [
        ("analytics.py", "setup"),
        ("analytics.py", "deep"),
    ]
    assert {path.rpartition("/")[0] for path, _ in files} == {"/work"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lookup-value", "cache"], "NAME=JSON"),
        (["--lookup-value", "cache={"], "{ is not JSON (Expecting"),
        (["--lookup-value", "cache:mode=fast"], "fast is not JSON"),
        (["--allow-lookup", "a b"], "policy.lookup"),
        (["--tier", "mediated"], "tier"),
        (["--tier", "strongest"], "tier"),
        (["--memory", "1"], "--memory"),
        (["--timeout", "-1"], "timeout"),
        (["--read-root", "/nowhere"], "read_root"),
        (["--allow-nothing"], "such option"),
    ],
)
def test_usage(options: list[str], words: str, plugin: Path, capsys: Capture) -> None:
    assert tried(plugin, *options) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.out == ""


def test_what_is_no_plugin_is_2(plugin: Path, capsys: Capture) -> None:
    plugin.write_text("x = 1")
    assert tried(plugin) == 2
    assert "MANIFEST" in capsys.readouterr().err
    assert tried(plugin.parent / "absent.py") == 2


def test_learn_prints_the_least_that_it_needs(plugin: Path, capsys: Capture) -> None:
    plugin.write_text(SOURCE + "    ctx.lookup('a-b:c')\n")
    assert tried(plugin, "--learn") == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("Every name was allowed"))
    assert [line.strip() for line in lines[start + 1 :]] == [
        "--allow-declare telemetry",
        "--allow-lookup a-b:c",
        "--allow-lookup cache:ttl",
        "--allow-provide telemetry:client",
    ]


@pytest.mark.parametrize("learn", [True, False])
def test_a_name_that_reads_as_a_pattern_gets_no_option(learn: bool, plugin: Path, capsys: Capture) -> None:
    """Whoever takes the options as they are printed allows what was used, and not whatever the name stands for."""
    odd = ("*", "?", "config:*", "a b;$(x)")
    calls = "".join(f"    try: ctx.lookup({name!r})\n    except ctx.Refused: pass\n" for name in odd)
    plugin.write_text(
        SOURCE.split("\n\n", maxsplit=1)[0]
        + "\ndef setup(ctx):\n    try: ctx.provide('*', 1)\n    except ctx.Refused: pass\n"
        + calls
    )
    options = ["--learn"] if learn else []
    found = body(plugin, capsys, *options)
    assert found["needs"] == []
    assert found["no_option"] == ["lookup '*'", "lookup '?'", "lookup 'a b;$(x)'", "lookup 'config:*'", "provide '*'"]
    tried(plugin, *options)
    shown = capsys.readouterr()
    assert "--allow" not in shown.out + shown.err
    assert "lookup 'config:*'" in shown.err


def test_the_other_tiers_and_javascript(plugin: Path, capsys: Capture) -> None:
    for tier in ("worker", "confined"):
        house.require(f"{tier} tier")
        assert body(plugin, capsys, *ALLOWED, "--tier", tier)["tier"] == tier
    house.require("javascript guest")
    module = plugin.with_name("a.mjs")
    module.write_text(
        'export default { manifest: {id: "js", version: "1.0.0"}, async setup(ctx) { await ctx.lookup("cache:x"); } };'
    )
    found = body(module, capsys, "--allow-lookup", "cache:?")
    assert (found["tier"], found["exit_code"], found["state"]) == ("wasm", 0, "stopped")


def test_as_a_command_of_its_own_with_nothing_left(plugin: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    done = subprocess.run(
        [sys.executable, "-m", "fastness.cli", "plugin", "try", str(plugin), *ALLOWED],
        env={**os.environ, "FASTNESS_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # Its calls are in the audit trail of this home, under its id.
    shown = subprocess.run(
        [sys.executable, "-m", "fastness.cli", "audit", "--plugin", "loaded:analytics", "--json"],
        env={**os.environ, "FASTNESS_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "telemetry:client" in shown.stdout
    assert "ttl" not in shown.stdout.replace("cache:ttl", "")


def test_doctor_shows_plugins_that_are_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    stop = threading.Event()

    class Hangs:
        manifest = None

        def setup(self, ctx: Any) -> None:
            stop.wait()

    plugin = Hangs()
    plugin.manifest = {"id": "hangs"}  # type: ignore[assignment]  # what another would have in its class
    with pytest.raises(Exception, match="longer than"):
        sandbox_plugin(plugin, {"setup_timeout": 0.05}).setup(None)
    try:
        (found,) = json.loads(_doctor(home))["stuck_plugins"]
        assert (found["plugin"], found["phase"], found["process"]) == ("hangs", "setup", os.getpid())
    finally:
        stop.set()
    ends = time.monotonic() + 20
    while phases.stuck():
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert json.loads(_doctor(home))["stuck_plugins"] == []


def _doctor(home: Path) -> str:
    # Another process looks, as its user would.
    return subprocess.run(
        [sys.executable, "-m", "fastness.cli", "doctor", "--json"],
        env={**os.environ, "FASTNESS_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    ).stdout
