"""The JavaScript guest and its driver: values, errors, timers, names, claims, and a guest that lies to the driver."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastness
import house
from fastness._wasi import guest_javascript as driver
from fastness._wasi import guests, wasmbin
from fastness.runs import OutcomeKind, RunResult

MIB = 1 << 20


@pytest.fixture(scope="module")
def box() -> Iterator[fastness.Sandbox]:
    house.require("javascript guest")
    with fastness.Sandbox(tier="wasm", runtime="javascript", engines=1, timeout=20) as sandbox:
        yield sandbox


def ok(result: RunResult) -> RunResult:
    assert result.outcome.kind is OutcomeKind.OK, (result.outcome, result.stderr)
    return result


def failed(result: RunResult) -> str:
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR, result.outcome
    return result.outcome.detail


# ---------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1 + 1", 2),
        ("-0", -0.0),
        ("2 ** 53 - 1", 2**53 - 1),
        ("2 ** 53", 2.0**53),
        ("1e21", 1e21),
        ("5n", 5),
        ("-(2n ** 70n)", -(2**70)),
        ("[NaN, Infinity, -Infinity]", [math.nan, math.inf, -math.inf]),
        ("undefined", None),
        ("[undefined, , null]", [None, None, None]),
        ("'a\\ud800b'", "a\ud800b"),
        ("'\\u{1f600}\\0\\n\"'", '\U0001f600\0\n"'),
        ("new Uint8Array([0, 1, 255])", b"\x00\x01\xff"),
        ("({$: 1, '\\udc00': [2]})", {"$": 1, "\udc00": [2]}),
        ("({$: ['int', 'f']})", {"$": ["int", "f"]}),
        ("let a = [1]; [a, a]", [[1], [1]]),
        ("Object.create(null)", {}),
        ("var x = 3; if (x) { 42 }", 42),
        ("// nothing", None),
    ],
)
def test_completion_values_cross(code: str, value: object, box: fastness.Sandbox) -> None:
    """The completion value arrives as the same plain data, whatever JSON has no form for."""
    result = ok(box.run(code))
    assert repr(result.value) == repr(value)
    assert result.value_repr is None


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def _literal(value: Any) -> str:
    """The JavaScript expression for plain data."""
    if isinstance(value, list):
        return f"[{','.join(map(_literal, value))}]"
    if isinstance(value, dict):
        # Computed keys: a bare __proto__ would set the prototype.
        return f"({{{','.join(f'[{json.dumps(k)}]:{_literal(v)}' for k, v in value.items())}}})"
    if isinstance(value, float):
        return repr(value).replace("nan", "NaN").replace("inf", "Infinity")
    return json.dumps(value)


def _as_javascript(value: Any) -> Any:
    """What is left of a value where every number is a double: integral ones come back as integers."""
    if isinstance(value, list):
        return [_as_javascript(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_javascript(item) for key, item in value.items()}
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0":
        return int(value)
    return value


def _in_any_order(value: Any) -> Any:
    # JavaScript lists keys that look like indexes first.
    if isinstance(value, list):
        return [_in_any_order(item) for item in value]
    if isinstance(value, dict):
        return [[key, _in_any_order(value[key])] for key in sorted(value)]
    return value


@given(value=_PLAIN)
def test_plain_data_survives(value: Any, box: fastness.Sandbox) -> None:
    """Any plain data that JavaScript can hold comes out as it went in."""
    result = ok(box.run(f"({_literal(value)})"))
    assert repr(_in_any_order(result.value)) == repr(_in_any_order(_as_javascript(value)))


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("new Map([[1, {a: 2}]])", "Map(1) { 1 => { a: 2 } }"),
        ("new Set(['x'])", "Set(1) { 'x' }"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("(function named() {})", "[Function: named]"),
        ("class A { constructor() { this.x = 1 } }; new A", "A { x: 1 }"),
        ("Symbol('s')", "Symbol(s)"),
        ("let o = {}; o.self = o; o", "{ self: [Circular] }"),
        ("new Float64Array(2)", "Float64Array(2) [ 0, 0 ]"),
        ("/x/g", "/x/g"),
        ("({[Symbol('k')]: 1})", "{ [Symbol(k)]: 1 }"),
    ],
)
def test_what_is_not_plain_is_described(code: str, shown: str, box: fastness.Sandbox) -> None:
    """Other values are None, with a description."""
    result = ok(box.run(code))
    assert (result.value, result.value_repr) == (None, shown)


def test_accessors_and_proxies_are_not_run_by_the_encoder(box: fastness.Sandbox) -> None:
    """Encoding reads no accessor, and a proxy whose traps throw is only not plain."""
    result = ok(box.run("({get x() { print('ran'); return 1 }})"))
    assert (result.value, result.stdout) == (None, "")
    trap = ok(box.run("new Proxy({}, {getPrototypeOf() { throw new Error('x') }})"))
    assert (trap.value, trap.value_repr) == (None, "<object that cannot be shown>")


@pytest.mark.parametrize(
    "code", ["'x'.repeat(3e6)", "let d = []; for (let i = 0; i < 300; i++) d = [d]; d", "[Array(1e6)]"]
)
def test_values_past_the_caps(code: str, box: fastness.Sandbox) -> None:
    """A value that is too large or too deep is described, in a few thousand characters at most."""
    result = ok(box.run(code))
    assert result.value is None and result.value_repr is not None and len(result.value_repr) <= 4100


def test_the_encoder_does_not_depend_on_what_user_code_can_replace(box: fastness.Sandbox) -> None:
    """Broken prototypes and globals change neither the value nor the form of the answer."""
    sabotage = """
      for (const c of [Array, String, Map, Object, Number, Promise])
        for (const k of Object.getOwnPropertyNames(c.prototype))
          if (k !== 'constructor') try { Object.defineProperty(c.prototype, k, {value: null}) } catch {}
      Object.prototype.toJSON = Object.prototype.claims = Object.prototype.value_repr = () => 7;
      JSON.stringify = Reflect.ownKeys = Array.isArray = null;
      Object.defineProperty(Array.prototype, '0', {set() { throw 1 }});
      globalThis.JSON = globalThis.Object = globalThis.Array = globalThis.String = null;
    """
    assert ok(box.run(sabotage + "({a: [1, 'x', 2n**60n, '\\ud800', new Uint8Array([1])]})")).value == {
        "a": [1, "x", 2**60, "\ud800", b"\x01"]
    }
    assert failed(box.run(sabotage + "throw new TypeError('still said')")) != ""


# ------------------------------------------------------------------------------------- promises, timers and modules


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("await 1; let q = 2; q", 2),
        ("Promise.resolve(Promise.resolve(3))", 3),
        ("(async () => { await null; return {a: [1]} })()", {"a": [1]}),
        ("({then(f) { f(4) }})", 4),
        ("await new Promise(r => setTimeout(r, 5, 7))", 7),
        ("new Promise(r => os.sleepAsync(1).then(() => r(8)))", 8),
    ],
)
def test_promises_are_awaited(code: str, value: object, box: fastness.Sandbox) -> None:
    """A completion value that is a promise is awaited, and so is top-level await."""
    assert ok(box.run(code)).value == value


def test_timers_run_to_the_end_and_in_order(box: fastness.Sandbox) -> None:
    """All timers run before the answer, by time due; intervals repeat until they are cleared."""
    code = """
      setTimeout(() => print('c'), 300); setTimeout(print, 100, 'a'); setTimeout(() => print('b'), 200);
      const never = setTimeout(() => print('never'), 50); clearTimeout(never);
      let n = 0; const i = setInterval(() => { print('i' + ++n); if (n === 2) clearInterval(i) }, 120);
      queueMicrotask(() => print('micro')); print('now'); 'value'
    """
    result = ok(box.run(code, time=1_700_000_000))
    assert result.stdout.split() == ["now", "micro", "a", "i1", "b", "i2", "c"]
    assert result.value == "value"


def test_fixed_time_moves_by_sleeping_only(box: fastness.Sandbox) -> None:
    """With ``time`` a long timer takes no time and the clocks show exactly its length."""
    code = "let t = Date.now(); let p = performance.now(); await new Promise(r => setTimeout(r, 1e6)); "
    result = ok(box.run(code + "[t, Date.now() - t, performance.now() - p]", time=1_000_000))
    assert result.value == [1_000_000_000, 1_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("Promise.reject(new RangeError('lost')); print('before')", "RangeError: lost"),
        ("setTimeout(() => { throw new TypeError('timer') }, 1)", "TypeError: timer"),
        ("queueMicrotask(() => { throw new TypeError('job') })", "TypeError: job"),
        ("(async () => { throw new TypeError('async') })(); await new Promise(() => 0)", "TypeError: async"),
        ("await new Promise(() => 0)", "top-level await was still waiting"),
    ],
)
def test_what_nobody_catches_is_an_error(code: str, detail: str, box: fastness.Sandbox) -> None:
    """Unhandled rejections, errors in timers and jobs, and a top-level await without end are errors."""
    assert detail in failed(box.run(code))


def test_a_rejection_that_is_handled_is_none(box: fastness.Sandbox) -> None:
    """A rejection that is caught, also a moment later, does not fail the run."""
    assert (
        ok(box.run("const p = Promise.reject(1); p.catch(() => 0); try { await Promise.reject(2) } catch {} 5")).value
        == 5
    )


def test_modules(box: fastness.Sandbox) -> None:
    """Static imports make the code a module; files in /work and the built-in names can be imported."""
    files: dict[str, bytes | str | Path] = {
        "lib.mjs": "export const twice = x => 2 * x",
        "own.js": "exports.v = 3",
        "d.json": "[4]",
    }
    code = (
        "import {twice} from './lib.mjs'; import fs, {existsSync} from 'node:fs'; import * as std from 'std';\n"
        "import {join} from 'path'; import {now} from 'os';\n"
        "print(twice(4), existsSync('lib.mjs'), typeof fs.readFileSync, typeof std.open, join('a', '..', 'b'), typeof now)\n"
        "print(require('./own').v, require('./d.json')[0], (await import('./lib.mjs')).twice(1))"
    )
    assert ok(box.run(code, files=files)).stdout.split() == [
        "8",
        "true",
        "function",
        "function",
        "b",
        "function",
        "3",
        "4",
        "2",
    ]
    assert "no_such" in failed(box.run("import x from './no_such.mjs'"))
    assert failed(box.run("require('left-pad')")) == "Error: Cannot find module 'left-pad'"


@pytest.mark.parametrize(
    ("code", "may_be"),
    [
        (b"import x from 'y'", True),
        (b"1;\n  export const a = 1", True),
        (b"import{a}from'b'", True),
        (b"export{a}", True),
        (b"await import('x')", False),
        (b"import('x')", False),
        (b"import.meta", False),
        (b"exports.a = 1", False),
        (b"let important = 1", False),
    ],
)
def test_which_code_may_be_a_module(code: bytes, may_be: bool) -> None:
    """Only code that a script cannot be is tried as a module."""
    assert driver._may_be_module(code) is may_be


# ---------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("throw new TypeError('boo')", "TypeError: boo"),
        ("class Mine extends Error {}; throw new Mine('m')", "Mine: m"),
        ("null.x", "TypeError: cannot read property 'x' of null"),
        ("let x = ;", "SyntaxError: unexpected token in expression: ';'"),
        ("throw 5", "number: 5"),
        ("throw {a: 1}", "object: { a: 1 }"),
        ("throw null", "null: null"),
        ("throw {get message() { throw 1 }}", "object: { message: [Getter] }"),
        ("throw Object.defineProperty(new Error, 'name', {get() { throw 1 }})", "Error"),
        ("(function f() { return 1 + f() })()", "RangeError: Maximum call stack size exceeded"),
        ("process.env", "ReferenceError: process is not defined"),
        ("return 1", "SyntaxError: return not in a function"),
    ],
)
def test_errors_have_type_and_message(code: str, detail: str, box: fastness.Sandbox) -> None:
    """What is thrown is told by type and message, whatever it is."""
    assert failed(box.run(code)) == detail


def test_stacks_show_the_users_frames_only(box: fastness.Sandbox) -> None:
    """The stack names the given file, lines and functions, and neither boot code nor paths of the host."""
    text = box.run("function inner() { fs.readFileSync('none') }\n[1].map(inner)", filename="job.js").stderr
    assert "at inner (job.js:1:" in text and "at <eval> (job.js:2:" in text
    assert "fastness" not in text
    assert "<run>:1:" in box.run("throw new Error('x')").stderr


def test_exit_codes(box: fastness.Sandbox) -> None:
    """``std.exit`` ends the run with its number; output before it is there."""
    result = box.run("std.out.puts('kept'); std.exit(3)")
    assert (result.outcome.kind, result.exit_code, result.stdout) == (OutcomeKind.GUEST_ERROR, 3, "kept")
    assert ok(box.run("std.exit(0)")).exit_code == 0


@pytest.mark.parametrize(
    "code",
    [
        "let a = []; for (;;) a.push(new Array(1000).fill(0))",
        "let a = []; for (;;) a.push({})",
        "let a = []; for (;;) a.push('x'.repeat(1000) + a.length)",
        "let f = () => 1; for (;;) f = f.bind()",
        "new ArrayBuffer(1e9)",
    ],
)
def test_memory_that_runs_out_is_memory(code: str, box: fastness.Sandbox) -> None:
    """An uncaught failure to allocate is ``memory``, also where there is no room for an error object."""
    assert box.run(code, memory=16 * MIB).outcome.kind is OutcomeKind.MEMORY
    assert ok(box.run("1")).value == 1


def test_memory_that_runs_out_and_is_caught_is_ok(box: fastness.Sandbox) -> None:
    """A program that catches the failure and lets go of its data goes on."""
    code = "let a = []; try { for (;;) a.push(new Array(1000).fill(0)) } catch { a = null } 'went on'"
    assert ok(box.run(code, memory=16 * MIB)).value == "went on"


@pytest.mark.parametrize(
    "code",
    [
        "for (;;);",
        "for (;;) await 1",
        "os.sleep(1e6)",
        "setTimeout(() => 0, 1e6)",
        "/(a+)+$/.test('a'.repeat(50) + 'b')",
    ],
)
def test_endless_programs_end(code: str, box: fastness.Sandbox) -> None:
    """Loops, jobs, sleeps, timers and regular expressions end at the deadline, and the next run works."""
    assert box.run(code, timeout=0.1).outcome.kind is OutcomeKind.TIMEOUT
    assert ok(box.run("1")).value == 1


@pytest.mark.parametrize(
    "code", ["JSON.parse('['.repeat(1e5))", "(" * 100_000, "let p = {}; for (;;) p = new Proxy(p, {})"]
)
def test_depth_hurts_the_run_only(code: str, box: fastness.Sandbox) -> None:
    """Nesting past any stack is a result, and the next run works."""
    assert box.run(code, memory=64 * MIB).outcome.kind is not OutcomeKind.OK
    assert ok(box.run("1")).value == 1


# --------------------------------------------------------------------------------------------------- names and claims


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


# ------------------------------------------------------------------------------------------ randomness and sessions


def test_randomness_differs_and_can_be_fixed(box: fastness.Sandbox) -> None:
    """Each run draws its own numbers, though all start from one image; a seed repeats them."""
    code = "[Math.random(), Math.random()]"
    free = [ok(box.run(code)).value for _ in range(4)] + [ok(box.run(code, fresh=True)).value for _ in range(2)]
    assert len({number for pair in free for number in pair}) == 12
    fixed = [ok(box.run(code, seed=7, fresh=fresh)).value for fresh in (False, True, False)]
    assert fixed[0] == fixed[1] == fixed[2]
    assert ok(box.run(code, seed=8)).value != fixed[0]


def test_a_session_reports_each_failure_once(box: fastness.Sandbox) -> None:
    """After errors and lost rejections the session goes on, without their timers and without hearing of them again."""
    with box.session() as session:
        ok(session.execute("let x = 5; const twice = () => x * 2"))
        assert (
            failed(session.execute("x = 6; Promise.reject(new Error('a')); Promise.reject(new Error('b'))"))
            == "Error: a"
        )
        assert failed(session.execute("setTimeout(() => print('late'), 10); throw new Error('c')")) == "Error: c"
        result = ok(session.execute("twice()"))
        assert (result.value, result.stdout) == (12, "")


def test_a_session_does_not_restart_its_randomness(box: fastness.Sandbox) -> None:
    """The generator is seeded when a session starts; later requests draw on."""
    with box.session(seed=3) as session:
        first = [ok(session.execute("Math.random()")).value for _ in range(2)]
    assert ok(box.run("[Math.random(), Math.random()]", seed=3)).value == first


def test_a_session_does_not_grow_by_small_requests(box: fastness.Sandbox) -> None:
    """Code, answers and promises of earlier requests are given back."""
    with box.session() as session:
        sizes = [ok(session.execute("'x'.repeat(50_000)")).usage.memory for _ in range(300)]
    assert sizes[-1] == sizes[20]


# ------------------------------------------------------------------------------------ the artefact, and a lying guest


def test_the_artefact_can_be_an_image() -> None:
    """Memory is the guest's whole state: one mutable global (the stack pointer), and a table that cannot grow."""
    house.require("javascript guest")
    fd = guests.open_verified(guests.JAVASCRIPT, guests.JAVASCRIPT.code)
    with open(fd, "rb") as file:
        data = file.read()
    found = {section: data[start:end] for section, start, end in wasmbin.sections(data) if section}
    reader = wasmbin.Reader(found[wasmbin.GLOBAL])
    mutable = 0
    for _ in range(reader.u32()):
        assert reader.byte() == 0x7F  # i32
        mutable += reader.byte()
        assert reader.byte() == 0x41  # i32.const
        reader.skip_leb(5)
        assert reader.byte() == 0x0B
    assert mutable == 1
    table = wasmbin.Reader(found[wasmbin.TABLE])
    assert (table.u32(), table.byte(), table.byte()) == (1, 0x70, 1)
    assert table.u32() == table.u32()


class _Liar:
    """An instance whose exports answer whatever the test says, over a small memory."""

    def __init__(self, size: int = 4096, **answers: int) -> None:
        import ctypes

        self._memory = ctypes.create_string_buffer(size)
        self._base = ctypes.addressof(self._memory)
        self._size = size
        self._answers = answers

    def base(self) -> int:
        return self._base

    def size(self) -> int:
        return self._size

    def call(self, name: bytes, *args: int) -> int:
        return self._answers.get(name.decode(), 0)

    def call_raw(self, name: bytes, args: tuple[int, ...]) -> list[int]:
        value = self._answers.get(name.decode(), 0)
        return [value & 0xFFFFFFFF, value >> 32]

    def put(self, address: int, data: bytes) -> None:
        self._memory[address : address + len(data)] = data


def _turn(instance: _Liar) -> driver.Turn:
    return driver.Turn(instance, None, {"context": 64, "runtime": 64, "scratch": 128})  # type: ignore[arg-type]  # stands in


@pytest.mark.parametrize(
    ("address", "size", "refused"),
    [(4000, 96, False), (4000, 97, True), (2**32 - 1, 4, True), (4096, 1, True), (8, 2**32 - 1, False)],
)
def test_an_answer_outside_memory_is_refused(address: int, size: int, refused: bool) -> None:
    """Address and length of an answer are the guest's words: nothing outside its memory is read."""
    liar = _Liar(JS_ToCStringLen2=address)
    liar.put(128, struct.pack("<I", size))
    if refused:
        with pytest.raises(RuntimeError, match="outside"):
            _turn(liar).text(0)
    else:
        assert len(_turn(liar).text(0)) == (size if size < 4096 else 0)


def test_a_request_is_not_written_outside_memory() -> None:
    """An allocator that hands out an address at the end of memory does not make the host write past it."""
    with pytest.raises(RuntimeError, match="outside"):
        _turn(_Liar(malloc=4090)).evaluate(b"1 + 1 + 1", b"<run>", 0)
    assert _turn(_Liar(malloc=0)).evaluate(b"1", b"<run>", 0) is None


@given(word=st.integers(1, 2**64 - 1))
def test_the_generators_step(word: int) -> None:
    """One step of the state is a bijection on the non-zero words, computed here from its definition bit by bit."""
    mask = 2**64 - 1
    a = word ^ (word >> 12)
    b = (a ^ (a << 25)) & mask
    assert driver._xorshift(word) == (b ^ (b >> 27)) & mask != 0
