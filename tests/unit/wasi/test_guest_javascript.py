"""The JavaScript guest: values, promises, timers, modules, errors, limits, randomness and sessions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from javascript_support import box, failed, ok

import fastness
from fastness.runs import OutcomeKind

MIB = 1 << 20
__all__ = ["box"]  # a fixture

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
        "print(twice(4), existsSync('lib.mjs'), typeof fs.readFileSync, typeof std.open)\n"
        "print(join('a', '..', 'b'), typeof now)\n"
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
