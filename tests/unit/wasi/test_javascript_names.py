"""What programs find in the JavaScript guest: console, files, the names they expect, and refusals as claims."""

from __future__ import annotations

import pytest
from javascript_support import box, failed, ok

import fastness
from fastness.runs import OutcomeKind

__all__ = ["box"]  # a fixture


@pytest.mark.parametrize(
    ("code", "operation", "target"),
    [
        ("require('child_process').execSync('ls')", "require", "child_process"),
        ("require('node:net')", "require", "net"),
        ("import {exec} from 'child_process'", "require", "child_process"),
        ("import http from 'node:https'", "require", "https"),
        ("await fetch('http://192.0.2.1/')", "fetch", "http://192.0.2.1/"),
        ("os.exec(['ls', '-l'])", "os.exec", "ls,-l"),
        ("std.popen('ls', 'r')", "std.popen", "ls"),
    ],
)
def test_attempts_are_claimed(code: str, operation: str, target: str, box: fastness.Sandbox) -> None:
    """What the guest has no function for fails with a clear error, and the attempt is a claimed row."""
    result = box.run(code)
    assert "not available" in failed(result)
    (row,) = result.denials
    assert (row.operation, row.target, row.layer, row.claimed) == (operation, target, "guest", True)


def test_claims_of_a_run_that_is_ended_are_told(box: fastness.Sandbox) -> None:
    """A claim is told when it happens: it is there although no answer came."""
    result = box.run("try { require('net') } catch {} for (;;);", timeout=0.1)
    assert [(row.operation, row.target) for row in result.denials] == [("require", "net")]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "console.log({a: 1, b: 'x', c: {d: {e: {f: 1}}}}, [1, 'a', null])",
            "{ a: 1, b: 'x', c: { d: { e: [Object] } } } [ 1, 'a', null ]",
        ),
        ("console.log('%s is %d%%, %i %j', 'B', 4.5, 4.5, {a: 1}, 'more')", 'B is 4.5%, 4 {"a":1} more'),
        ("console.log('100%', 5)", "100% 5"),
        ("console.log([[]], [{}], 5n, -0, undefined, 'str', ['str'])", "[ [] ] [ {} ] 5n -0 undefined str [ 'str' ]"),
        (
            "console.log(class A {}, () => 1, Object.assign(() => 1, {p: 1}))",
            "[class A] [Function (anonymous)] [Function (anonymous)] { p: 1 }",
        ),
        ("console.log(new Error('x').message, [1, , 3], ['it\\'s'])", 'x [ 1, <1 empty item>, 3 ] [ "it\'s" ]'),
        ("console.group('g'); console.log('a\\nb'); console.groupEnd(); console.log('c')", "g\n  a\n  b\nc"),
        (
            "console.table([{a: 1}])",
            "┌─────────┬───┐\n│ (index) │ a │\n├─────────┼───┤\n│ 0       │ 1 │\n└─────────┴───┘",
        ),
        ("console.log('\\ud800')", "\ufffd"),
        ("print(1, 'a', null)", "1 a null"),
        ("console.log()", ""),
    ],
)
def test_console_shows_values_readably(code: str, text: str, box: fastness.Sandbox) -> None:
    """Objects are shown as a person expects them, cut at a depth."""
    assert ok(box.run(code)).stdout == text + "\n"


def test_long_arrays_are_shown_in_columns(box: fastness.Sandbox) -> None:
    """A hundred items at most, many on a line."""
    lines = ok(box.run("console.log(Array.from({length: 120}, (_, i) => i))")).stdout.splitlines()
    assert len(lines) < 15 and lines[-2].strip() == "... 20 more items"


def test_streams_keep_their_order_and_side(box: fastness.Sandbox) -> None:
    """``log`` and ``info`` go to standard output, ``warn`` and ``error`` to standard error."""
    result = ok(box.run("console.log(1); console.warn(2); console.info(3); console.error(4); std.err.puts('5')"))
    assert (result.stdout, result.stderr) == ("1\n3\n", "2\n4\n5")


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("new TextDecoder().decode(new TextEncoder().encode('h\\u00e9\\u20ac\\u{1f600}'))", "hé€\U0001f600"),
        ("new TextDecoder().decode(new Uint8Array([0xf0, 0x9f, 0x41, 0xc0, 0x80]))", "\ufffdA\ufffd\ufffd"),
        ("atob(btoa('q'))", "q"),
        ("structuredClone({a: [1, {b: 2}]})", {"a": [1, {"b": 2}]}),
        ("let c = structuredClone(new Map([[1, 2]])); c.get(1)", 2),
        ("let o = {}; o.o = o; let k = structuredClone(o); k !== o && k.o === k", True),
        ("typeof navigator + typeof process + typeof __fastness", "undefined" * 3),
        ("scriptArgs", ["<run>"]),
        ("performance.now() < 1000 && Math.abs(performance.timeOrigin - Date.now()) < 5000", True),
    ],
)
def test_names_that_programs_expect(code: str, value: object, box: fastness.Sandbox) -> None:
    """The web platform's small names are there and do what they do elsewhere."""
    assert ok(box.run(code)).value == value


def test_arguments_environment_and_input(box: fastness.Sandbox) -> None:
    """A run sees its own arguments, variables and standard input, and nothing of them in the next run."""
    code = "[scriptArgs, std.getenv('A'), std.in.readAsString()]"
    assert ok(box.run(code, args=["p", "é"], env={"A": "bé"}, stdin=b"in\n", filename="f.js")).value == [
        ["f.js", "p", "é"],
        "bé",
        "in\n",
    ]
    assert ok(box.run(code)).value == [["<run>"], None, ""]


def test_files(box: fastness.Sandbox) -> None:
    """Node's names for files work on /work; what a program left open is written out."""
    code = """
      fs.writeFileSync('o.txt', 'hi'); fs.appendFileSync('o.txt', 'é'); fs.mkdirSync('d/e', {recursive: true});
      fs.writeFileSync('d/e/z', new Uint8Array([1, 2])); const f = std.open('p.txt', 'w'); f.puts('left open');
      [fs.readFileSync('in.txt', 'utf8'), fs.readdirSync('.'), fs.existsSync('none'), fs.statSync('o.txt').size,
       fs.readFileSync('d/e/z'), await fs.promises.readFile('in.txt', 'utf8'), os.getcwd()[0]]
    """
    result = ok(box.run(code, files={"in.txt": b"input"}))
    assert result.value == ["input", ["d", "in.txt", "o.txt", "p.txt"], False, 4, b"\x01\x02", "input", "/work"]
    assert {path: file.read() for path, file in result.files.items()} == {
        "o.txt": "hié".encode(),
        "d/e/z": b"\x01\x02",
        "p.txt": b"left open",
    }


def test_files_outside_and_past_the_quota(box: fastness.Sandbox) -> None:
    """An absent path is a host row with the right error; a full tree is ``disk``."""
    result = box.run("fs.readFileSync('/etc/passwd')")
    assert "ENOENT" in failed(result)
    assert [(row.target, row.claimed) for row in result.denials] == [("/etc/passwd", False)]
    full = box.run("fs.writeFileSync('big', 'x'.repeat(1e6))", limits={"file_bytes": 10_000})
    assert full.outcome.kind is OutcomeKind.DISK
