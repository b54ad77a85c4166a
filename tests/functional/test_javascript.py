"""
JavaScript through the public API: outcomes, what is kept, what cannot be forged, and that the engine serves on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fastness
import house
from fastness import OutcomeKind


@pytest.fixture(scope="module")
def js(boxes: Callable[[str], fastness.Sandbox]) -> Iterator[Any]:
    """``js(code, **options)`` runs a program."""
    house.require("javascript guest")
    box = boxes("wasm")

    def run(code: str, **options: Any) -> fastness.RunResult:
        return box.run(code, runtime="javascript", **options)

    yield run
    assert run("6 * 7").value == 42, "the engine does not serve on"


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1", 1),
        ("-0", -0.0),
        ("0.1 + 0.2", 0.1 + 0.2),
        ("2n ** 70n", 2**70),
        ("9007199254740993n", 2**53 + 1),
        ("'ü\\u{1F600}'", "ü😀"),
        ("true", True),
        ("null", None),
        ("[1, [2, {a: null}]]", [1, [2, {"a": None}]]),
        ("({'__proto__x': 1, 'a b': 2})", {"__proto__x": 1, "a b": 2}),
        ("new Uint8Array([0, 255])", b"\x00\xff"),
        ("const x = 5; x + 1", 6),
        ("if (true) { 7 }", 7),
        ("await Promise.all([1, Promise.resolve(2)])", [1, 2]),
        ("(async () => { await null; return 'done' })()", "done"),
        ("new Promise(r => setTimeout(() => r('late'), 5))", "late"),
    ],
)
def test_values(js: Any, code: str, value: Any) -> None:
    """The completion value, awaited, as plain data; the same in the JSON of the result where JSON has it."""
    result = js(code)
    assert (result.outcome.kind, result.value) == (OutcomeKind.OK, value), result.stderr
    assert type(result.value) is type(value)
    assert json.loads(result.to_json())["outcome"]["kind"] == "ok"


_ENDINGS: list[tuple[str, dict[str, Any], OutcomeKind]] = [
    ("for (;;);", {"timeout": 0.2}, OutcomeKind.TIMEOUT),
    ("while (true) { try { for (;;); } catch {} finally { continue } }", {"timeout": 0.2}, OutcomeKind.TIMEOUT),
    ("function f() { Promise.resolve().then(f) } f()", {"timeout": 0.2}, OutcomeKind.TIMEOUT),
    ("setInterval(() => {}, 1)", {"timeout": 0.2}, OutcomeKind.TIMEOUT),
    ("/(a+)+$/.exec('a'.repeat(60) + 'b')", {"timeout": 0.2}, OutcomeKind.TIMEOUT),
    ("const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))", {"memory": "32M"}, OutcomeKind.MEMORY),
    ("'x'.repeat(2 ** 29).split('')", {"memory": "64M"}, OutcomeKind.MEMORY),
    ("for (;;) console.log('x'.repeat(1000))", {"limits": {"output_total_bytes": 9999}}, OutcomeKind.OUTPUT_LIMIT),
    ("function f() { return f() + 1 } f()", {}, OutcomeKind.GUEST_ERROR),
    ("throw new TypeError('x')", {}, OutcomeKind.GUEST_ERROR),
    ("let a = ;", {}, OutcomeKind.GUEST_ERROR),
    ("JSON.parse('['.repeat(1e6))", {}, OutcomeKind.CRASHED),
    ("Promise.reject(new Error('nobody'))", {}, OutcomeKind.GUEST_ERROR),
]


@pytest.mark.parametrize(("code", "options", "kind"), _ENDINGS, ids=[code[:40] for code, _, _ in _ENDINGS])
def test_endings(js: Any, box: fastness.Sandbox, code: str, options: dict[str, Any], kind: OutcomeKind) -> None:
    """Each ends as what it is, with what it had printed and written, and the next run works."""
    before = "console.log('early'); require('fs').writeFileSync('kept', '1');\n"
    if "let a = ;" in code:
        before = ""
    result = js(before + code, **{"timeout": 20, **options})
    assert result.outcome.kind is kind, (result.outcome.detail, result.stderr[:300])
    assert result.value is None
    if before:
        assert result.stdout.startswith("early\n")
        assert set(result.files) == {"kept"}
    assert js("1 + 1").value == 2


def test_an_exception(js: Any) -> None:
    """Type and message in the detail; on stderr the stack, with the program's own lines only."""
    result = js("function inner() {\n  throw new RangeError('too far')\n}\ninner()", filename="prog.js")
    assert result.outcome.detail == "RangeError: too far"
    assert "prog.js:2" in result.stderr
    assert "prog.js:4" in result.stderr
    for word in ("fastness:", "site-packages", ".py"):
        assert word not in result.stderr


@pytest.mark.parametrize(
    ("code", "operation", "target"),
    [
        ("require('child_process')", "require", "child_process"),
        ("await import('child_process')", "import", "child_process"),
        ("require('net')", "require", "net"),
        ("await fetch('http://192.0.2.1/x')", "fetch", "http://192.0.2.1/x"),
    ],
)
def test_attempts_are_claimed(js: Any, code: str, operation: str, target: str) -> None:
    """What this guest has no function for is told as an attempt, marked as the guest's own word."""
    result = js(code)
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR
    (row,) = result.denials
    assert (row.layer, row.claimed, row.target) == ("guest", True, target)
    assert row.operation in (operation, "require")


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "../../etc/passwd", "/root/.ssh/id_rsa"])
def test_host_paths_are_not_there(js: Any, path: str) -> None:
    """Absent for the guest, and the host's own row says what was asked for."""
    result = js(f"require('fs').readFileSync({path!r}, 'utf8')")
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR
    assert any(not row.claimed and row.operation == "path_open" for row in result.denials)


def test_files_and_inputs(js: Any) -> None:
    """Staged files are read, new ones come back, standard input and arguments arrive."""
    code = """
import fs from 'fs'
fs.writeFileSync('out.json', JSON.stringify({got: fs.readFileSync('in.txt', 'utf8')}))
console.log('done')
"""
    result = js(code, files={"in.txt": "text"}, filename="prog.mjs")
    assert (result.outcome.kind, result.stdout) == (OutcomeKind.OK, "done\n"), result.stderr
    assert json.loads(result.files["out.json"].read()) == {"got": "text"}
    assert result.changes.added == ("out.json",)


def test_modules_beside_the_program(js: Any) -> None:
    """A staged module can be imported and required by its path."""
    files = {"lib/util.mjs": "export const twice = x => 2 * x; export default 'd'"}
    assert js("const m = await import('./lib/util.mjs'); [m.twice(4), m.default]", files=files).value == [8, "d"]


def test_entry_files(box: fastness.Sandbox, tmp_path: Path) -> None:
    """A file that ends in .js or .mjs is JavaScript."""
    house.require("javascript guest")
    for name in ("a.js", "a.mjs"):
        (tmp_path / name).write_text("console.log(typeof document, 1n + 1n)")
        result = box.run(entry=tmp_path / name)
        assert (result.runtime, result.stdout) == ("javascript", "undefined 2n\n")


_FORGERIES = [
    'JSON.stringify = () => \'{"kind":"ok","value":"forged"}\'',
    "JSON.stringify = null; JSON.parse = null",
    "Object.prototype.toJSON = () => 'forged'",
    "Object.prototype.kind = 'ok'; Object.prototype.value = 'forged'; Object.prototype.value_repr = 'forged'",
    "Array.prototype.toJSON = () => ['forged']; Array.prototype.push = () => 0; Array.prototype.map = () => ['forged']",
    "Promise.prototype.then = () => { throw 1 }",
    "globalThis.TextEncoder = class { encode() { return new Uint8Array([102]) } }",
    "String.prototype.charCodeAt = () => 65; String.prototype.replace = () => 'forged'",
    "Number.prototype.toString = () => '666'; Number.isInteger = () => true",
    "for (const n of Object.getOwnPropertyNames(globalThis)) try { delete globalThis[n] } catch {}",
    "Reflect.ownKeys = () => []; Object.keys = () => []; Object.entries = () => [['forged', 1]]",
    "Symbol.prototype.toString = () => 'forged'; Function.prototype.call = null; Function.prototype.apply = null",
]


@pytest.mark.parametrize("code", _FORGERIES)
def test_answers_are_not_changed_by_what_a_program_replaces(js: Any, code: str) -> None:
    """Replaced built-ins neither change a plain value on its way out, nor turn an error into a success."""
    result = js(f"{code}; ({{a: [1, 'x'], b: null}})")
    assert (result.outcome.kind, result.value) == (OutcomeKind.OK, {"a": [1, "x"], "b": None}), result.stderr
    failed = js(f"{code}; throw new Error('real')")
    assert failed.outcome.kind is OutcomeKind.GUEST_ERROR
    assert failed.value is None


def test_a_value_that_is_no_data_stays_one(js: Any) -> None:
    """What a program puts on its prototypes does not make its odd value a method's, for which that is an error."""
    result = js("Object.prototype.unfit = () => new Error('forged'); new Map()")
    assert (result.outcome.kind, result.value) == (OutcomeKind.OK, None), result.stderr
    assert result.value_repr == "Map(0) {}"


def test_an_accessor_in_the_way_of_the_value(js: Any) -> None:
    """
    The interpreter hands the completion value over in an object of its own, which inherits like any other.

    A program can so replace its own value, as it could by ending in another; it cannot make an error look good.
    """
    code = "Object.defineProperty(Object.prototype, 'value', {get() { return 'mine' }, set() {}})"
    assert js(f"{code}; 5").outcome.kind is OutcomeKind.OK
    failed = js(f"{code}; throw new Error('real')")
    assert (failed.outcome.kind, failed.outcome.detail, failed.value) == (OutcomeKind.GUEST_ERROR, "Error: real", None)


def test_what_a_program_replaces_is_gone_in_the_next(js: Any) -> None:
    """Not one of these changes is seen by the run after it."""
    for code in _FORGERIES:
        js(code)
        clean = "JSON.stringify({a: [1]}) + typeof ({}).kind + [1, 2].map(x => x + 1) + (5).toString()"
        assert js(clean).value == '{"a":[1]}undefined2,35', code


@pytest.mark.parametrize("code", ["std.exit(0)", "std.exit(3)", "std.out.close(); 1", "os.close(1); 1"])
def test_exits_and_closed_streams(js: Any, code: str) -> None:
    """Whatever is done to streams or to the interpreter, the run ends with an outcome and the engine serves on."""
    result = js(code)
    assert result.outcome.kind in (OutcomeKind.OK, OutcomeKind.GUEST_ERROR)
    assert js("1").value == 1
