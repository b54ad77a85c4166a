"""``plugin try --learn``: all is refused and recorded, and the smallest manifest comes of it; and what the trail says grants."""

from __future__ import annotations

import asyncio
import json
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import fastness
import house
import mails
from fastness.broker.gate import arguments_of
from fastness.capabilities import registry
from fastness.capabilities.fs import Fs
from fastness.capabilities.integrations import Counts, Email, Integrations
from fastness.capabilities.memory import Memory
from fastness.capabilities.signals import Publish
from fastness.capabilities.storage import Storage
from fastness.capability import Adapter, CallContext
from fastness.cli.main import main
from fastness.cli.plugin_host import known_specs
from fastness.errors import CapabilityError
from fastness.manifest import parse
from fastness.plugins.learning import REASON, Asked, proposed, toml_of
from plugin_homes import own_home, package, rows

Capture = pytest.CaptureFixture[str]
BASE = {"id": "p", "version": "1.0.0", "api": 1, "runtime": "python", "entry": "p.py"}
#: What is asked of each kind, and the fields of the least scope that allows it.
CALLS: dict[str, tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]] = {
    "fs": (
        [("list", {}), ("write", {"path": "a", "data": "x" * 50}), ("write", {"path": "b", "data": b"y" * 20})],
        {"read": True, "write": True, "call_bytes": 50, "run_bytes": 70 + 2 * 4096, "quota": 70 + 2 * 4096},
    ),
    "storage": (
        [("get", {"key": "k"}), ("put", {"key": "k", "value": "x" * 10}), ("put", {"key": "k", "value": "x" * 40}), ("put", {"key": "l", "value": 1})],
        {"quota": 2 * 129 + 42 + 1, "value_bytes": 42},
    ),
    "memory": (
        [("add", {"text": "x" * 30, "tags": ["t"]}), ("add", {"text": "y"}), ("search", {"words": "x"})],
        {"notes": 2, "quota": 2 * 256 + 32, "note_bytes": 31},
    ),
    "net": (
        [("request", {"method": "GET", "url": "https://A.example.com/x?y"}), ("request", {"method": "GET", "url": "http://b.test:8080"}),
         ("request", {"method": "GET", "url": "no url"})],
        {"hosts": ["a.example.com", "b.test"], "schemes": ["http", "https"], "ports": [443, 8080]},
    ),
    "llm": (
        [("ask", {"prompt": "x", "tier": "strong", "max_tokens": 50}), ("ask", {"prompt": "x"}), ("read", {"stream": 1})],
        {"tiers": ["cheap", "strong"], "budget": 0.02, "max_tokens": 1024},
    ),
    "process": ([("run", {"argv": ["ls"], "timeout": 3.0}), ("run", {"argv": ["ls"], "timeout": 2.0})], {"runs": 2, "seconds": 3.0}),
    "signals": (
        [("publish", {"topic": "house.lamp", "data": {"on": True}}), ("publish", {"topic": "house.door"})],
        {"publish": ["house.lamp", "house.door"], "queue": 1, "signal_bytes": 11},
    ),
    "schedule": (
        [("every", {"seconds": 300.0, "method": "m"}), ("every", {"seconds": 90.0, "method": "m"}), ("list", {})],
        {"standing": 2, "interval_s": 90.0, "ahead_s": 300.0},
    ),
    "integrations": (
        [("email.send", {"to": ["ann@example.com", "bob@example.com"], "subject": "s", "text": "t"}),
         ("email.send", {"to": "not an address", "subject": "s", "text": "t"})],
        {"actions": ["email.send"], "per_day": 2, "message_bytes": 32, "recipients": ["ann@example.com", "bob@example.com"]},
    ),
}  # fmt: skip


def asked_of(kind: str) -> tuple[Asked, list[Any]]:
    asked, spec = Asked(), registry.specs()[kind]
    decoded = []
    for operation, arguments in CALLS[kind][0]:
        found = spec.operation(operation)
        assert found is not None
        given = arguments_of(found, arguments)
        decoded.append((operation, given))
        asked.note(kind, operation, given)
    return asked, decoded


@pytest.mark.parametrize("kind", CALLS)
def test_the_least_scope(kind: str) -> None:
    """Exactly what was asked for, whatever of it no scope allows; written out and read again it is the same."""
    asked, _ = asked_of(kind)
    shipped = parse(BASE, known_specs())
    found = proposed(shipped, asked, {}, known_specs())
    wanted = {"kind": kind, "reason": REASON, **CALLS[kind][1]}
    assert found.manifest == parse({**BASE, "capabilities": [wanted]}, known_specs())
    assert parse(tomllib.loads(toml_of(found.manifest)), known_specs()) == found.manifest
    assert found.unknown == {}
    assert (len(found.beyond), found.unused) == (1, ())


def test_it_is_enough_and_no_more(tmp_path: Path) -> None:
    """Under the least scope real adapters do all of it; under one that is less by anything, not all."""
    server = mails.Mails()
    places = iter(range(1000))

    def adapter(kind: str) -> Adapter:
        base = tmp_path / str(next(places))
        base.mkdir(mode=0o700)
        made: dict[str, Any] = {
            "fs": lambda: Fs(base),
            "storage": lambda: Storage(str(base / "s.db")),
            "memory": lambda: Memory(str(base)),
            "integrations": lambda: Integrations([Email(server.settings())], Counts(str(base / "c.db"))),
        }
        found: Adapter = made[kind]()
        return found

    def refused(kind: str, scope: Any, calls: list[Any]) -> int:
        made, count = adapter(kind), 0
        spent: dict[str, int] = {}
        for operation, given in calls:
            context = CallContext(plugin="p", owner="o", run="r", scope=scope, deadline=1e12, spent=spent)
            try:
                asyncio.run(made.call(operation, given, context))
            except CapabilityError:
                count += 1
        asyncio.run(made.aclose())
        return count

    try:
        for kind in ("fs", "storage", "memory", "integrations"):
            asked, calls = asked_of(kind)
            scope = asked.scope(kind)
            assert scope is not None
            base = 1 if kind == "integrations" else 0
            assert refused(kind, scope, calls) == base, kind
            for name in CALLS[kind][1]:
                value = getattr(scope, name)
                less = value[1:] if isinstance(value, tuple) else False if isinstance(value, bool) else value - 1
                fields = {field: getattr(scope, field) for field in scope.__struct_fields__}
                assert refused(kind, type(scope)(**{**fields, name: less}), calls) > base, (kind, name)
    finally:
        server.close()


def test_what_is_compared() -> None:
    """What the shipped manifest lacks, and what it asks that was not asked for; functions of the host stay."""
    asked, _ = asked_of("storage")
    shipped = parse(
        {
            **BASE,
            "lookups": ["*"],
            "capabilities": [
                {"kind": "storage", "quota": 200, "reason": "Keeps."},
                {"kind": "fs", "read": True, "reason": "Reads."},
                {"kind": "host", "names": ["ask"], "reason": "Asks."},
            ],
        },
        known_specs(),
    )
    found = proposed(shipped, asked, {"lookups": ["a:b", "a:b"], "provides": [], "declares": []}, known_specs())
    assert found.manifest.lookups == ("a:b",)
    assert [one.kind for one in found.manifest.capabilities] == ["storage", "host"]
    assert found.manifest.capabilities[0].reason == "Keeps."
    assert found.beyond == ("storage: keep up to 301 bytes for each owner",)
    assert [line.partition(":")[0] for line in found.unused] == ["storage", "fs", "look up *"]


def test_texts_of_a_manifest() -> None:
    """A reason of any characters is read back as it was."""
    reason = 'It "keeps" \\ this: é ✉ 𝄞 # [x]'
    shipped = parse({**BASE, "capabilities": [{"kind": "fs", "read": True, "reason": reason}]}, known_specs())
    assert parse(tomllib.loads(toml_of(shipped)), known_specs()) == shipped
    limits = parse({**BASE, "limits": {"memory": "64M", "wall_s": 2.5}, "methods": ["a"]}, known_specs())
    assert parse(tomllib.loads(toml_of(limits)), known_specs()) == limits


def test_what_calls_do_not_show() -> None:
    """Which signals a plugin takes is not in its calls: that stays as it was, and is said."""
    asked, _ = asked_of("signals")
    take = registry.specs()["signals"].operation("take")
    assert take is not None
    asked.note("signals", "take", arguments_of(take, {}))
    wants = {"kind": "signals", "publish": ["*"], "subscribe": ["house.*"], "queue": 7, "reason": "Hears."}
    found = proposed(parse({**BASE, "capabilities": [wants]}, known_specs()), asked, {}, known_specs())
    scope: Any = found.manifest.scope("signals")
    assert (scope.publish, scope.subscribe, scope.queue) == (("house.lamp", "house.door"), ("house.*",), 7)
    assert found.unknown == {"signals": ("take",)}


def test_calls_that_are_many() -> None:
    """What is kept of them is bounded, and that there were more is told."""
    asked = Asked()
    put = registry.specs()["storage"].operation("put")
    assert put is not None
    given = arguments_of(put, {"key": "k", "value": "x" * (8 << 20)})
    for _ in range(20):
        asked.note("storage", "put", given)
    assert asked.dropped > 0
    assert len(asked._calls["storage"]) < 10


def test_a_kind_that_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is proposed as far as the shipped manifest has it, and said to be unknown."""
    asked, _ = asked_of("storage")
    import msgspec

    blind = msgspec.structs.replace(registry.specs()["storage"], learn=None)
    monkeypatch.setattr(asked, "specs", {**asked.specs, "storage": blind})
    found = proposed(parse(BASE, known_specs()), asked, {}, known_specs())
    assert found.unknown == {"storage": ("get", "put")}
    assert [one.kind for one in found.manifest.capabilities] == ["storage"]


# from the command line

PYTHON = """
MANIFEST = {"id": "learner", "version": "1.0.0", "methods": ["go", "unused"],
    "capabilities": [{"kind": "storage", "quota": 9, "reason": "Keeps."}, {"kind": "fs", "read": True, "reason": "Reads."}]}

def setup(ctx):
    ctx.lookup("cache:ttl")
    kinds = sorted(name for name in vars(ctx) if name not in ("log", "lookup", "provide", "declare_capability"))
    ctx.log("info", " ".join(kinds))
    try: ctx.storage.put("k", "v")
    except ctx.Refused: pass

def go(ctx, whom):
    ctx.log("info", str(getattr(ctx, "lookup", None)))
    try: ctx.integrations.email.send(whom, "s", "t")
    except ctx.Refused as error: assert error.code == "not_granted"
    ctx.memory.add("x")
"""
JAVASCRIPT = """
export default { manifest: {id: "learner", version: "1.0.0", methods: ["go"], capabilities: []},
  async setup(ctx) { try { await ctx.storage.get("k") } catch (e) { ctx.log("info", e.code) } } };
export async function go(ctx, { whom }) { try { await ctx.integrations.email.send(whom, "s", "t") } catch (e) { ctx.log("info", e.code) } }
"""


def learned(path: Path, capsys: Capture, *options: str) -> dict[str, Any]:
    code = main(["plugin", "try", str(path), "--learn", "--json", *options])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == code
    return found


@pytest.mark.parametrize("tier", ["isolated", "confined", "worker", "wasm"])
def test_learning(tier: str, tmp_path: Path, capsys: Capture) -> None:
    """Every kind is there, each call is refused and on record, and the manifest asks for them and no more."""
    house.require("python guest" if tier == "wasm" else f"{tier} tier")
    path = tmp_path / "learner.py"
    path.write_text(PYTHON)
    (tmp_path / "home").mkdir(mode=0o700)
    with own_home(tmp_path / "home") as base:
        found = learned(path, capsys, "--tier", tier, "--call", 'go={"whom": "ann@example.com"}')
        kinds = found["logs"][0]["text"].split()
        assert kinds == sorted(registry.specs())
        assert found["asked"] == {"integrations": ["email.send"], "memory": ["add"], "storage": ["put"]}
        assert (found["exit_code"], found["methods"]["go"]["outcome"]) == (5, "guest_error")
        assert found["logs"][1]["text"] == "None"
        asked = {one["kind"]: one for one in found["manifest"]["capabilities"]}
        assert sorted(asked) == ["integrations", "memory", "storage"]
        assert asked["integrations"]["recipients"] == ["ann@example.com"]
        assert found["manifest"]["lookups"] == ["cache:ttl"]
        assert [line.partition(":")[0] for line in found["beyond"]] == [
            "integrations",
            "memory",
            "storage",
            "look up cache",
        ]
        assert [line.partition(":")[0] for line in found["unused"]] == ["storage", "fs"]
        parse(tomllib.loads(found["toml"]), known_specs())
        refused = [row.capability for row in rows(base, decision="refused")]
        assert sorted(refused) == ["integrations", "memory", "storage"]
        # Nothing of it happened.
        assert sorted(one.name for one in (base / "data").iterdir() if not one.name.startswith("audit")) == []


def test_learning_in_javascript(tmp_path: Path, capsys: Capture) -> None:
    """The same for a module of JavaScript and its methods."""
    house.require("javascript guest")
    path = tmp_path / "learner.mjs"
    path.write_text(JAVASCRIPT)
    found = learned(path, capsys, "--call", 'go={"whom": ["ann@example.com"]}')
    assert [line["text"] for line in found["logs"]] == ["not_granted", "not_granted"]
    assert found["asked"] == {"integrations": ["email.send"], "storage": ["get"]}


def test_what_is_shown(tmp_path: Path, capsys: Capture) -> None:
    """The manifest, what the two have that the other has not, and what was not looked at."""
    house.require("isolated tier")
    path = tmp_path / "learner.py"
    path.write_text(PYTHON)
    assert main(["plugin", "try", str(path), "--learn"]) == 5
    shown = capsys.readouterr().out
    for line in (
        '  kind = "storage"',
        "  + storage: keep up to 132 bytes",
        "  - fs: It can read every file",
        "Not called: go, unused",
    ):
        assert line in shown
    text = shown.partition("it asked for:\n\n")[2].partition("\n\nBeside")[0]
    made = parse(tomllib.loads("\n".join(line.removeprefix("  ") for line in text.splitlines())), known_specs())
    assert [one.kind for one in made.capabilities] == ["storage"]


def test_what_the_page_shows(capsys: Capture) -> None:
    """The example of the page comes out as it is printed there."""
    house.require("isolated tier")
    root = Path(__file__).parents[2]
    page = (root / "docs" / "plugins" / "in-process.md").read_text("utf-8")
    printed = page.partition("$ fastness plugin try fetch_and_store --learn")[2].partition("```")[0]
    options = ["--call", "latest", "--call", 'refresh={"origin": "http://127.0.0.1:8761"}']
    assert main(["plugin", "try", str(root / "examples" / "plugins" / "fetch_and_store"), "--learn", *options]) == 5
    assert printed.partition("...\n")[2].rpartition("...\n")[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--call", "go"], "goes with --learn"),
        (["--learn", "--call", "gone"], "methods are: go, unused"),
        (["--learn", "--call", "go=x"], "is not JSON"),
        (["--learn", "--call", "go=[1]"], "arguments by name"),
        (["--learn", "--allow-network"], "refuses every capability"),
    ],
)
def test_usage(options: list[str], words: str, tmp_path: Path, capsys: Capture) -> None:
    house.require("isolated tier")
    path = tmp_path / "learner.py"
    path.write_text(PYTHON)
    assert main(["plugin", "try", str(path), *options]) == 2
    assert words in capsys.readouterr().err


# what the trail says


@pytest.mark.parametrize(
    ("kind", "bad", "good", "field", "value"),
    [
        ("signals", ("publish", {"topic": "b", "data": "x" * 70_000}), ("publish", {"topic": "a"}), "publish", ["a"]),
        (
            "integrations",
            ("email.send", {"to": "b@b.example", "subject": "s", "text": "x" * (4 << 20), "html": "y"}),
            ("email.send", {"to": "a@b.example", "subject": "s", "text": "t"}),
            "recipients",
            ["a@b.example"],
        ),
    ],
)
def test_a_call_that_no_scope_allows(kind: str, bad: Any, good: Any, field: str, value: Any) -> None:
    """Beyond the bounds of a manifest: it hides no other, and that something is left out is said."""
    asked = Asked()
    for operation, given in (good, bad):
        found = asked.specs[kind].operation(operation)
        assert found is not None
        asked.note(kind, operation, msgspec.convert(given, found.arguments))
    made = proposed(parse(BASE, known_specs()), asked, {}, known_specs())
    assert list(getattr(made.manifest.scope(kind), field)) == value
    assert made.unknown == {kind: (good[0],)}


def test_more_than_any_scope_allows() -> None:
    """300 topics, of which a manifest names 64: so many are proposed, and not none."""
    asked = Asked()
    for number in range(300):
        asked.note("signals", "publish", msgspec.convert({"topic": f"t{number}"}, Publish))
    made = proposed(parse(BASE, known_specs()), asked, {}, known_specs())
    scope: Any = made.manifest.scope("signals")
    assert scope.publish == tuple(f"t{number}" for number in range(64))
    assert made.unknown == {"signals": ("publish",)}


@pytest.mark.parametrize("publishes", [False, True])
def test_no_signal_comes_in_a_trial(publishes: bool) -> None:
    """So what a plugin receives, and is called by, stays as it was, and that it was not seen is said."""
    handlers = [{"topic": "b.*", "method": "go"}]
    wants = {"kind": "signals", "publish": ["c"], "subscribe": ["b.*"], "handlers": handlers, "reason": "r"}
    asked = Asked()
    if publishes:
        asked.note("signals", "publish", msgspec.convert({"topic": "a"}, Publish))
    shipped = parse({**BASE, "methods": ["go"], "capabilities": [wants]}, known_specs())
    made = proposed(shipped, asked, {}, known_specs())
    scope, had = cast("tuple[Any, Any]", (made.manifest.scope("signals"), shipped.scope("signals")))
    assert (scope.subscribe, scope.handlers, scope.queue) == (had.subscribe, had.handlers, had.queue)
    assert scope.publish == (("a",) if publishes else ())
    assert made.unknown == {"signals": ("handlers",)}


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    house.require("isolated tier")
    (tmp_path / "home").mkdir(mode=0o700)
    with own_home(tmp_path / "home") as made:
        yield made


ASKS = """
def go(ctx):
    for call in (lambda: ctx.storage.put("k", "x" * 900), lambda: ctx.fs.write("a", "x"), lambda: ctx.fs.read("../x")):
        try:
            call()
        except ctx.Refused:
            pass
"""


def test_a_refusal_in_the_trail(base: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The one command that grants it, beside what is granted by now; run as it is printed it does."""
    storage = {"kind": "storage", "quota": 2000, "reason": "Keeps."}
    files = {"kind": "fs", "read": True, "reason": "Reads."}
    folder = package(base / "p", ASKS, [storage, files], methods=["go"])
    assert main(["plugin", "install", str(folder)]) == 0
    assert (
        main(["plugin", "grant", "hello", "--owner", "ann", "--allow", 'storage:{"quota": 10}', "--allow", "fs"]) == 0
    )
    assert main(["plugin", "call", "hello", "go", "--owner", "ann"]) == 0
    capfd.readouterr()
    assert main(["audit"]) == 0
    lines = capfd.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if "may not do that with storage for ann; to grant" in line)
    command = lines[at + 1].strip()
    assert command == "fastness plugin grant hello --owner ann --allow storage --allow fs"
    (files_line,) = [line for line in lines if "may not do that with fs" in line]
    assert "no grant gives it" in files_line
    assert main(command.split()[1:]) == 0
    before = len(rows(base, capability="storage", decision="refused"))
    assert main(["plugin", "call", "hello", "go", "--owner", "ann"]) == 0
    assert len(rows(base, capability="storage", decision="refused")) == before
    capfd.readouterr()
    assert main(["audit", "--json"]) == 0
    shown = capfd.readouterr().out
    assert "fastness plugin grant" not in shown
    assert all(json.loads(line) for line in shown.splitlines())


def test_what_was_narrowed_stays_so(base: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Also where it was narrowed to what a scope has by default: the command, run as it is printed, brings none of it."""
    storage = {"kind": "storage", "quota": 2000, "reason": "Keeps."}
    files = {"kind": "fs", "read": True, "write": True, "reason": "Keeps them."}
    told = {"kind": "signals", "publish": ["a.*"], "subscribe": ["b.*"], "handlers": [{"topic": "b.*", "method": "go"}]}
    wants = [storage, files, {**told, "reason": "Tells."}]
    assert main(["plugin", "install", str(package(base / "p", ASKS, wants, methods=["go"]))]) == 0
    narrow = ['storage:{"quota": 10}', 'fs:{"write": false}', 'signals:{"subscribe": [], "handlers": []}']
    allow = [word for one in narrow for word in ("--allow", one)]
    assert main(["plugin", "grant", "hello", "--owner", "ann", *allow]) == 0
    assert main(["plugin", "call", "hello", "go", "--owner", "ann"]) == 0
    with fastness.PluginHost() as host:
        before = {kind: host.show("hello").grants[0].scope(kind) for kind in ("fs", "signals")}
    capfd.readouterr()
    assert main(["audit"]) == 0
    lines = capfd.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if "may not do that with storage for ann; to grant" in line)
    assert main(shlex.split(lines[at + 1])[1:]) == 0
    with fastness.PluginHost() as host:
        (made,) = host.show("hello").grants
    assert {kind: made.scope(kind) for kind in before} == before
    assert getattr(made.scope("storage"), "quota", 0) == 2000


def test_a_refusal_that_no_grant_lifts(base: Path, capsys: Capture) -> None:
    """What the operator has not, and what is of no installed plugin: no command is made up."""
    folder = package(
        base / "p",
        "def go(ctx):\n    return getattr(ctx, 'integrations', None) is None",
        [{"kind": "integrations", "actions": ["email.send"], "per_day": 1, "recipients": ["*"], "reason": "Tells."}],
        methods=["go"],
    )
    assert main(["plugin", "install", str(folder)]) == 0
    assert main(["plugin", "grant", "hello", "--owner", "ann", "--all"]) == 0
    from fastness.broker.trail import Intent
    from fastness.cli.audit_grants import Grants
    from fastness.runner.trail import open_trail

    about = {"run": "r", "owner": "ann", "operation": "email.send", "target": ""}
    for plugin in ("hello", "loaded:hello", "gone"):
        open_trail().refused(Intent(plugin=plugin, capability="integrations", **about), code="no_adapter")
    open_trail().refused(Intent(plugin="hello", capability="memory", **about), code="not_granted")
    open_trail().refused(Intent(plugin="hello", capability="\x1b[2J", **about), code="not_granted")
    capsys.readouterr()
    assert main(["audit"]) == 0
    shown = capsys.readouterr().out
    told = [line for line in shown.splitlines() if "may not do that" in line]
    assert len(told) == 2
    assert "[integrations] of config/config.toml" in told[0]
    assert "does not ask for memory" in told[1]
    assert "plugin grant" not in shown.partition("may not do that")[2]
    assert "\x1b" not in shown
    assert Grants().of([]) == []
