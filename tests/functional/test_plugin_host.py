"""Plugins through their host, in guests of every tier: what they reach, what is refused, and what ends them."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import wasm_support

import fastness
import house
import listeners
from fastness._wasi import home as homes
from fastness.audit import reading
from fastness.capabilities.net import Net, NetScope
from fastness.errors import ConfigurationError, GrantError, PackageChanged
from fastness.plugins.states import State
from fastness.runs import OutcomeKind
from listeners import Listener
from plugin_homes import FILES, STORAGE, events, own_home, package, rows

PLACES = [
    ("wasm", "python"), ("wasm", "javascript"), ("isolated", "python"), ("confined", "python"), ("worker", "python"),
]  # fmt: skip


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def secret() -> str:
    """What this plugin is not granted."""
    return "kept"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with own_home(tmp_path_factory.mktemp("home")) as made, listeners.nothing_leaves():
        yield made


@pytest.fixture(scope="module")
def server() -> Iterator[Listener]:
    """A server on loopback, the only one that may be reached."""
    made = Listener(lambda _head: [listeners.answer(b"from the server")])
    yield made
    made.close()


@pytest.fixture(scope="module")
def host(base: Path, server: Listener) -> Iterator[fastness.PluginHost]:
    functions: dict[str, Callable[..., Any]] = {"add": add, "secret": secret}
    names = listeners.Names(a_test=["127.0.0.1"], b_test=["127.0.0.1"], c_inside_test=["10.0.0.1"])
    net = Net(listeners.guard("a.test", port=server.port), resolve=names)
    with fastness.PluginHost(functions=functions, adapters={"net": net}) as made:
        yield made


@pytest.fixture(params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A tier and a runtime."""
    tier, runtime = request.param
    if tier == "wasm":
        wasm_support.require_python_guest()
    house.require(f"{runtime} guest" if tier == "wasm" else f"{tier} tier")
    return tier, runtime


class Scene:
    """One plugin, installed and granted all that it asks for."""

    def __init__(self, host: fastness.PluginHost, base: Path, place: tuple[str, str], folder: Path) -> None:
        self.host, self.base = host, base
        self.tier, self.runtime = place
        self.folder = folder
        self.made = 0

    def install(
        self, python: str | dict[str, str], javascript: str | dict[str, str] = "", *, grant: bool = True, **fields: Any
    ) -> fastness.Shown:
        self.made += 1
        files: Any = python if self.runtime == "python" else javascript
        if isinstance(files, str):
            files = textwrap.dedent(files)
        folder = package(self.folder / str(self.made), files, runtime=self.runtime, **{"methods": ["go"], **fields})
        shown = self.host.install(folder, upgrade=self.made > 1)
        self.host.set_tier("hello", self.tier, trust="reviewed")
        if grant:
            self.host.grant("hello", owner="ann", all=True)
        return shown

    def go(self, method: str = "go", owner: str = "ann", **args: Any) -> fastness.RunResult:
        return self.host.invoke("hello", method, args, owner=owner)

    def value(self, method: str = "go", **args: Any) -> Any:
        result = self.go(method, **args)
        assert result.ok, (result.outcome, result.stderr)
        return result.value


@pytest.fixture
def scene(host: fastness.PluginHost, base: Path, place: tuple[str, str], tmp_path: Path) -> Iterator[Scene]:
    made = Scene(host, base, place, tmp_path)
    yield made
    with contextlib.suppress(ConfigurationError):
        host.disable("hello")
    with contextlib.suppress(ConfigurationError):
        host.remove("hello")


# what a plugin reaches


def test_a_method_and_its_result(scene: Scene) -> None:
    """Its value and its output come back; the result names the tier and the policy that it ran under."""
    scene.install(
        """
        def go(ctx, name, times=1):
            print("to the output")
            return {"hello": [name] * times, "has": sorted(name for name in vars(ctx))}
        """,
        """
        export function go(ctx, {name, times = 1}) {
          console.log("to the output");
          return {hello: Array(times).fill(name), has: Object.keys(ctx).sort()};
        }
        """,
    )
    result = scene.go(name="x", times=2)
    assert result.ok, (result.outcome, result.stderr)
    assert result.value["hello"] == ["x", "x"]
    assert set(result.value["has"]) <= {"log", "Refused"}
    assert result.stdout == "to the output\n"
    assert (result.tier, result.sandboxed, len(result.policy_digest)) == (scene.tier, True, 64)
    (row,) = rows(scene.base, op="invoke", run=result.run_id)
    assert (row.plugin, row.owner, row.target) == ("hello", "ann", "go")
    (row,) = rows(scene.base, op="end", run=result.run_id)
    assert (row.plugin, row.owner, row.target, row.code) == ("hello", "ann", "go", "ok")
    # Another owner's is another policy, and the same one's is the same.
    assert scene.go(name="x").policy_digest == result.policy_digest
    scene.host.grant("hello", owner="bob")
    assert scene.go(owner="bob", name="x").policy_digest != result.policy_digest


def test_storage_files_and_functions(scene: Scene) -> None:
    """What is granted is there and works between runs; what is not granted is absent."""
    scene.install(
        """
        async def go(ctx):
            n = ((await ctx.storage.get("n")) or 0) + 1
            await ctx.storage.put("n", n)
            await ctx.fs.write("kept.txt", "x" * n)
            return [n, await ctx.fs.read("kept.txt"), await ctx.host.add(n, b=10),
                    getattr(ctx, "net", None) is None, hasattr(ctx.host, "secret")]
        """,
        """
        export async function go(ctx) {
          const n = ((await ctx.storage.get("n")) ?? 0) + 1;
          await ctx.storage.put("n", n);
          await ctx.fs.write("kept.txt", "x".repeat(n));
          return [n, await ctx.fs.read("kept.txt"), await ctx.host.add(n, 10),
                  ctx.net === undefined, "secret" in ctx.host];
        }
        """,
        capabilities=[STORAGE, FILES, {"kind": "host", "names": ["add"], "reason": "to add"}],
    )
    assert scene.value() == [1, b"x", 11, True, False]
    assert scene.value() == [2, b"xx", 12, True, False]
    scene.host.grant("hello", owner="bob", all=True)
    assert scene.go(owner="bob").value[0] == 1
    run = scene.go().run_id
    found = [(row.capability, row.op, row.target, row.phase, row.code) for row in rows(scene.base, run=run)][1:-1]
    assert [row for row in found if row[3] == "intent"] == [
        ("storage", "get", "n", "intent", ""), ("storage", "put", "n", "intent", ""),
        ("fs", "write", "kept.txt", "intent", ""), ("fs", "read", "kept.txt", "intent", ""),
        ("host", "add", "add", "intent", ""),
    ]  # fmt: skip
    assert len(found) == 10 and {row[4] for row in found} == {""}


def test_a_function_that_was_not_granted_cannot_be_called(scene: Scene) -> None:
    """Not by writing to the channel either: the host has no such operation for this run."""
    scene.install(
        """
        def go(ctx):
            calls = ctx.log.__self__
            try:
                return calls.wait(calls.begin("host", "secret", {}), "x")
            except ctx.Refused as refused:
                return refused.code
        """,
        "export const go = () => 'unsupported'",
        capabilities=[{"kind": "host", "names": ["add"], "reason": "to add"}],
    )
    assert scene.value() == "unsupported"


def test_what_is_refused_is_data(scene: Scene) -> None:
    """A refusal is an error that a plugin may catch, and a row of the result."""
    scene.install(
        """
        def go(ctx):
            try:
                ctx.fs.read("../../etc/passwd")
            except ctx.Refused as refused:
                return refused.code
        """,
        """
        export async function go(ctx) {
          try { await ctx.fs.read("../../etc/passwd") } catch (refused) { return refused.code }
        }
        """,
        capabilities=[FILES],
    )
    result = scene.go()
    assert result.value == "escape"
    (row,) = [row for row in result.denials if row.layer == "broker"]
    assert (row.capability, row.operation, row.code.value) == ("fs", "read", "escape")


def test_requests_go_where_they_may(scene: Scene, server: Listener) -> None:
    """A host that is named is reached at the judged address; others, and addresses inside, are not."""
    port, before = server.port, len(server.lines)
    asks = {"kind": "net", "hosts": ["a.test", "*.inside.test"], "schemes": ["http"], "ports": [port]}
    scene.install(
        """
        def go(ctx, urls):
            found = []
            for url in urls:
                try:
                    found.append(ctx.net.request("GET", url)["body"])
                except ctx.Refused as refused:
                    found.append(refused.code)
            return found
        """,
        """
        export async function go(ctx, {urls}) {
          const found = [];
          for (const url of urls) {
            try { found.push((await ctx.net.request("GET", url)).body) } catch (refused) { found.push(refused.code) }
          }
          return found;
        }
        """,
        capabilities=[{**asks, "reason": "to ask"}],
    )
    hosts = ("a.test", "b.test", "127.0.0.1", "c.inside.test")
    result = scene.go(urls=[f"http://{name}:{port}/x?q=secret" for name in hosts])
    assert result.value == [b"from the server", "host", "host", "address"], result.stderr
    assert server.lines[before:] == ["GET /x?q=secret HTTP/1.1"]
    targets = [row.target for row in rows(scene.base, run=result.run_id, phase="intent")]
    assert targets == [f"GET http://{name}:{port}/x" for name in hosts]


def test_programs_run_in_boxes_of_their_own(scene: Scene) -> None:
    """A plugin without exec has a program run: files go in, output and files come out, and the count is kept."""
    house.require("isolated tier")
    house.require("control groups")
    scene.install(
        """
        def go(ctx):
            made = ctx.process.run(["/bin/sh", "-c", "cat in; echo made > out; exit 3"], {"in": b"given "}, 10)
            try:
                ctx.process.run(["/bin/true"])
            except ctx.Refused as refused:
                return [made["outcome"], made["exit_code"], made["stdout"], made["files"], refused.code]
        """,
        """
        export async function go(ctx) {
          const files = {in: new TextEncoder().encode("given ")};
          const made = await ctx.process.run(["/bin/sh", "-c", "cat in; echo made > out; exit 3"], files, 10);
          try { await ctx.process.run(["/bin/true"]) } catch (refused) {
            return [made.outcome, made.exit_code, made.stdout, made.files, refused.code];
          }
        }
        """,
        capabilities=[{"kind": "process", "runs": 1, "reason": "to build"}],
    )
    assert scene.value() == ["guest_error", 3, b"given ", {"out": b"made\n"}, "quota"]


def test_packages_of_more_than_one_file(scene: Scene) -> None:
    """Modules import those beside them; files that are no code are there to be read; nothing of it is kept."""
    scene.install(
        {
            "main.py": "from parts.one import X\nimport parts\n"
            "def go(ctx):\n  found = [X, parts.__file__ is None, open('data.txt').read()]\n"
            "  open('data.txt', 'w').write('changed'); return found",
            "parts/one.py": "from .two import Y\nX = Y + 1",
            "parts/two.py": "Y = 1",
            "data.txt": "kept",
        },
        {
            "main.mjs": "import {X} from './parts/one.mjs'; import * as std from 'qjs:std';\n"
            "export function go(ctx) { return [X, true, std.loadFile('data.txt')] }",
            "parts/one.mjs": "import {Y} from './two.mjs'; export const X = Y + 1",
            "parts/two.mjs": "export const Y = 1",
            "data.txt": "kept",
        },
    )
    for _ in range(2):
        assert scene.value() == [2, True, "kept"]


def test_packages_that_are_all_code(scene: Scene) -> None:
    """They need no files: packages, parts of them and the standard library are found, and tracebacks show lines."""
    if scene.runtime != "python":
        pytest.skip("of Python alone")
    scene.install(
        {
            "main.py": "import parts\nfrom parts import one\nimport space.deep\nimport json\nimport os\n"
            "def go(ctx):\n"
            "  return [parts.NAME, one.X, space.deep.Z, json.dumps(1), os.listdir('.'), one.__file__.endswith('/parts/one.py')]\n"
            "def fail(ctx):\n  raise ValueError('here')  # this line\n",
            "parts/__init__.py": "NAME = __name__",
            "parts/one.py": "from .two import Y\nX = Y + 1",
            "parts/two.py": "Y = 1",
            "space/deep.py": "Z = 3",
        },
        methods=["go", "fail"],
    )
    assert scene.value() == ["parts", 2, 3, "1", [], True]
    result = scene.go("fail")
    assert "# this line" in result.stderr and "main.py" in result.stderr
    # The folder that a guest of some tiers works in may have our name in its path; frames of ours have it in brackets.
    assert "<_fastness" not in result.stderr and "importlib" not in result.stderr


def test_code_in_another_encoding(scene: Scene) -> None:
    """A file that says how it is encoded is read as Python reads files."""
    if scene.runtime != "python":
        pytest.skip("of Python alone")
    folder = package(scene.folder / "latin", "", methods=["go"])
    (folder / "main.py").write_bytes("# coding: latin-1\ndef go(ctx): return '\xe9'\n".encode("latin-1"))
    scene.host.install(folder)
    scene.host.set_tier("hello", scene.tier, trust="reviewed")
    scene.host.grant("hello", owner="ann")
    assert scene.value() == "\xe9"


# bad input


@pytest.mark.parametrize("bad", ["function", "instance", "cycle", "deep", "keys"])
def test_arguments_that_are_no_data(bad: str, scene: Scene) -> None:
    """Refused before they reach a guest, in a message that names the place; the host goes on."""
    scene.install("def go(ctx, x): return 1", "export const go = () => 1")
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = None
    for _ in range(1000):
        deep = [deep]
    value = {"function": {"a": [1, print]}, "instance": Path(), "cycle": cycle, "deep": deep, "keys": {1: 2}}[bad]
    with pytest.raises(ConfigurationError, match="arguments") as caught:
        scene.go(x=value)
    if bad == "function":
        assert "x" in str(caught.value) and "a" in str(caught.value)
    assert scene.value(x=1) == 1


def test_odd_values_go_both_ways(scene: Scene) -> None:
    """What is plain data and odd comes back as it went."""
    scene.install("def go(ctx, x): return x", "export const go = (ctx, {x}) => x")
    odd = [2**80, -0.0, b"\x00\xff", "\ud800", "a\x00b", {"": None, "$": 1, "__proto__": 2}]
    assert scene.value(x=odd) == odd
    nan = scene.value(x=float("nan"))
    assert nan != nan


def test_arguments_that_are_too_large(scene: Scene) -> None:
    """A hundred MiB of arguments never reach a guest."""
    scene.install("def go(ctx, x): return len(x)", "export const go = (ctx, {x}) => x.length")
    with pytest.raises(ConfigurationError, match="arguments"):
        scene.go(x=b"x" * (100 << 20))
    assert scene.value(x=b"x" * (1 << 20)) == 1 << 20


@pytest.mark.parametrize(
    ("python", "javascript", "words"),
    [
        ("{'f': [1, go]}", "{f: [1, go]}", r"result\.f\[1\] is .*function, .*only plain data can"),
        ("object()", "new Map()", r"result is .*(object|class), .*only plain data can"),
        ("['x' * (2 << 20)]", "['x'.repeat(2 << 20)]", "result is more than 1 MiB"),
    ],
)
def test_results_that_are_no_data(scene: Scene, python: str, javascript: str, words: str) -> None:
    """What does not cross is the plugin's error, which says where it is and what; None would be a value that it is not."""
    scene.install(f"def go(ctx): return {python}", f"export function go() {{ return {javascript} }}")
    result = scene.go()
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR and (result.value, result.value_repr) == (None, None)
    assert re.search(words, result.outcome.detail), result.outcome.detail
    assert "TypeError" in result.stderr
    scene.install("async def go(ctx): return [None]", "export const go = async () => [null]")
    assert scene.value() == [None]


def test_plugins_that_do_not_get_that_far(scene: Scene) -> None:
    """A module that raises, a method that is not there and one that takes other arguments are the plugin's errors."""
    scene.install("1/0  # here", "throw new Error('at once')")
    result = scene.go()
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR
    if scene.runtime == "python":
        assert "# here" in result.stderr and "importlib" not in result.stderr
    scene.install("def other(ctx): pass", "export const other = 1")
    assert scene.go().outcome.kind is OutcomeKind.GUEST_ERROR
    if scene.runtime == "python":
        scene.install("def go(ctx): pass")
        assert scene.go(extra=1).outcome.kind is OutcomeKind.GUEST_ERROR
    assert scene.host.show("hello").known.crashes == 0


def test_a_plugin_that_spins(scene: Scene) -> None:
    """Its time is its policy's, or less where its caller says so; the host goes on."""
    scene.install("def go(ctx):\n  while True: pass", "export function go() { for (;;); }", limits={"wall_s": 20.0})
    began = time.monotonic()
    result = scene.host.invoke("hello", "go", owner="ann", timeout=0.5)
    assert result.outcome.kind in (OutcomeKind.TIMEOUT, OutcomeKind.CPU)
    assert time.monotonic() - began < 15
    assert scene.host.show("hello").known.state is State.ENABLED


def test_shadowing_modules_shadow_in_their_guest_alone(scene: Scene) -> None:
    """A package with names of ours or of the standard library breaks at most itself."""
    if scene.runtime != "python":
        pytest.skip("of Python alone")
    scene.install(
        {
            "main.py": "def go(ctx):\n  ctx.storage.put('k', 1); return ctx.storage.get('k')",
            "json.py": "def loads(*a): return 666\ndumps = loads",
            "_fastness_context.py": "raise SystemExit(3)",
            "_fastness.py": "raise SystemExit(3)",
            "sitecustomize.py": "raise SystemExit(3)",
            "encodings/__init__.py": "raise SystemExit(3)",
        },
        capabilities=[STORAGE],
    )
    assert scene.value() == 1


def test_a_plugin_that_changes_itself(scene: Scene) -> None:
    """What it writes over its own files is gone with its guest."""
    if scene.runtime != "python":
        pytest.skip("of Python alone")
    scene.install(
        {
            "main.py": "def go(ctx):\n  before = open('main.py').read()\n  open('main.py', 'w').write('raise SystemExit')\n"
            "  return len(before)",
            "data": "",
        }
    )
    first = scene.value()
    assert scene.value() == first


# what ends it


def test_three_crashes_quarantine(scene: Scene) -> None:
    """The third crash is the last; until then the plugin may be called, and an error is no crash."""
    if scene.runtime != "python" or scene.tier == "wasm":
        pytest.skip("a guest that can be made to crash")
    scene.install(
        """
        def go(ctx): raise ValueError
        def crash(ctx):
            import os, signal
            os.kill(os.getpid(), signal.SIGSEGV)
            os.abort()
        """,
        methods=["go", "crash"],
    )
    for _ in range(2):
        assert scene.go("crash").outcome.kind is OutcomeKind.CRASHED
        assert scene.go().outcome.kind is OutcomeKind.GUEST_ERROR
    assert scene.host.show("hello").known.crashes == 2
    assert scene.go("crash").outcome.kind is OutcomeKind.CRASHED
    with pytest.raises(ConfigurationError, match="quarantined: it crashed 3 times"):
        scene.go()
    found = events(scene.base)[-5:]
    assert ("crash", "ann", "crashed") in found and ("quarantine", "", "") in found
    # The way out is the operator's.
    scene.host.disable("hello")
    scene.host.enable("hello")
    assert scene.host.show("hello").known.crashes == 0
    assert scene.go().outcome.kind is OutcomeKind.GUEST_ERROR


def test_a_violation_quarantines(scene: Scene) -> None:
    """One frame that no guest sends ends the guest and the plugin's welcome."""
    if scene.runtime != "python":
        pytest.skip("a guest that can write to its channel")
    scene.install(
        """
        def go(ctx):
            ctx.log.__self__._wire.send(0x77, b'{"id": 1}', b"")
            return 1
        """
    )
    assert scene.go().outcome.kind is OutcomeKind.PROTOCOL
    assert scene.host.show("hello").known.state is State.QUARANTINED
    with pytest.raises(ConfigurationError, match="broke the protocol"):
        scene.go()
    assert [code for op, _, code in events(scene.base) if op == "violation"][-1:] == ["protocol"]


def test_forged_names_are_nothing(scene: Scene) -> None:
    """Whose call it is, is known to the host: a guest that says it is another's is refused or heard as itself."""
    scene.install(
        """
        def go(ctx):
            for more in ({"owner": "bob"}, {"plugin": "other"}, {"run": "r"}):
                try:
                    ctx.storage.put("k", 1, **more)
                    return "taken"
                except TypeError:
                    pass
            calls = ctx.log.__self__
            found = []
            for more in ({"owner": "bob"}, {"plugin": "other"}):
                try:
                    calls.wait(calls.begin("storage", "put", {"key": "k", "value": 1, **more}), "x")
                    found.append("taken")
                except ctx.Refused as refused:
                    found.append(refused.code)
            return found
        """,
        """
        export async function go(ctx) {
          const found = [];
          for (const more of [{owner: "bob"}, {plugin: "other"}]) {
            try { await ctx.storage.put({key: "k", value: 1, ...more}); found.push("taken") }
            catch { found.push("invalid") }
          }
          return found;
        }
        """,
        capabilities=[STORAGE],
    )
    result = scene.go()
    assert result.value == ["invalid", "invalid"], result.stderr
    assert {(row.plugin, row.owner) for row in rows(scene.base, run=result.run_id)} == {("hello", "ann")}
    assert rows(scene.base, plugin="other") == []


#: Calls without end, and no more of them in a few seconds than one run may make.
LOOP = {
    "python": """
    import time
    def go(ctx):
        n = 0
        try:
            while True:
                ctx.storage.put("n", n)
                n += 1
                time.sleep(0.001)
        except ctx.Refused as refused:
            return [n > 0, refused.code]
    """,
    "javascript": """
    export async function go(ctx) {
      let n = 0;
      const pause = () => { const until = Date.now() + 1; while (Date.now() <= until); };
      try { for (;;) { await ctx.storage.put("n", n); n++; pause() } } catch (refused) { return [n > 0, refused.code] }
    }
    """,
}


@pytest.mark.parametrize("way", ["here", "another process", "disable", "expiry"])
def test_a_run_goes_on_without_what_was_taken(way: str, scene: Scene) -> None:
    """A plugin that calls without end: the next call after its grant has ended is refused, and the run is told."""
    scene.install(
        LOOP["python"], LOOP["javascript"], capabilities=[STORAGE], limits={"calls": 1_000_000, "wall_s": 60.0}
    )
    found: list[fastness.RunResult] = []
    if way == "expiry":
        scene.host.grant("hello", owner="ann", all=True, expires=time.time() + 4)
    thread = threading.Thread(target=lambda: found.append(scene.go()))
    trail = str(scene.base / "data" / "audit.db")
    (newest,) = reading.last(trail, count=1)
    thread.start()
    ends = time.monotonic() + 60
    # Calls that were let through and answered.  The trail is long: only what is new of it is read.
    while sum(row.op == "put" and not row.code for row in reading.records(trail, after=newest.seq)) < 4:
        assert time.monotonic() < ends
        time.sleep(0.02)
    if way == "here":
        assert scene.host.revoke("hello", owner="ann").in_flight == ()
    elif way == "disable":
        scene.host.disable("hello")
    elif way == "another process":
        code = f"""
        from pathlib import Path
        import sys
        sys.path.insert(0, {str(Path(house.__file__).parent)!r})
        from plugin_homes import own_home
        import fastness
        with own_home(Path({str(scene.base)!r})), fastness.PluginHost() as host:
            assert host.revoke("hello", owner="ann").ended == 1
        """
        environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60, env=environment)
    thread.join(60)
    assert not thread.is_alive()
    code = "expired" if way == "expiry" else "revoked"
    assert found[0].value == [True, code], (found[0].outcome, found[0].stderr)
    assert code in {row.code.value for row in found[0].denials}
    # The outcome of a call that was answered at once may be written after the refusal of the next.
    assert code in [row.code for row in rows(scene.base, run=found[0].run_id)]


def test_files_that_were_changed_do_not_run(scene: Scene) -> None:
    """Though the host has run them a moment ago."""
    shown = scene.install("def go(ctx): return 1", "export const go = () => 1")
    assert scene.value() == 1
    copied = Path(homes.place("data", "plugins", shown.known.digest, "files", shown.manifest.entry))
    copied.chmod(0o600)
    copied.write_text("def go(ctx): return 2" if scene.runtime == "python" else "export const go = () => 2")
    with pytest.raises(PackageChanged, match="it was changed"):
        scene.go()


def test_the_asynchronous_host(base: Path, place: tuple[str, str], tmp_path: Path) -> None:
    """The same from a loop, with runs at once, and cancelled ones that leave nothing behind."""
    tier, runtime = place
    text = {
        "python": "import time\ndef go(ctx, x): ctx.storage.put('k', x); return x\ndef wait(ctx): time.sleep(60)",
        "javascript": "export async function go(ctx, {x}) { await ctx.storage.put('k', x); return x }\n"
        "export function wait() { return new Promise((done) => setTimeout(done, 60000)) }",
    }

    async def main() -> None:
        async with fastness.AsyncPluginHost() as host:
            fields: dict[str, Any] = {"methods": ["go", "wait"], "capabilities": [STORAGE], "runtime": runtime}
            await host.install(package(tmp_path / "p", text[runtime], id="at-once", **fields))
            await host.set_tier("at-once", tier, trust="reviewed")
            await host.grant("at-once", owner="ann", all=True)
            values: list[Any] = []

            async def one(number: int) -> None:
                values.append((await host.invoke("at-once", "go", {"x": number}, owner="ann")).value)

            async with anyio.create_task_group() as group:
                for number in range(6):
                    group.start_soon(one, number)
            assert sorted(values) == list(range(6))
            with anyio.move_on_after(1):
                await host.invoke("at-once", "wait", owner="ann")
            assert host._core._running == {}
            assert [row.code for row in rows(base, plugin="at-once", op="end")][-7:] == ["ok"] * 6 + ["cancelled"]
            assert (await host.revoke("at-once")).ended == 1
            with pytest.raises(GrantError):
                await host.invoke("at-once", "go", {"x": 1}, owner="ann")
            await host.remove("at-once")

    anyio.run(main)


def test_hosts_named_by_their_scope_alone(host: fastness.PluginHost, base: Path, tmp_path: Path) -> None:
    """A scope that somebody made by hand is a grant like any other."""
    asks = {"kind": "net", "hosts": ["*.example.com"], "reason": "to ask"}
    host.install(package(tmp_path / "p", "", id="narrow", methods=["go"], capabilities=[asks]))
    made = host.grant("narrow", owner="ann", allowed=[NetScope(hosts=("a.example.com",))])
    assert made.allowed == (NetScope(hosts=("a.example.com",)),)
    host.remove("narrow")
