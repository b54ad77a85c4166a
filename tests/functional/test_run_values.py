"""
The value of the last expression: plain data comes back as it was, anything else as a bounded text.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import fastness
from fastness import OutcomeKind

pytestmark = pytest.mark.tiers("wasm", "isolated", "confined")

PLAIN = [
    None,
    True,
    False,
    0,
    -1,
    2**53 - 1,
    2**53,
    -(2**53),
    2**64,
    -(2**200),
    10**5000,
    0.0,
    0.1,
    1e308,
    5e-324,
    "",
    "text",
    'quotes " and \\ and \n\t\0\x7f',
    "\N{SNOWMAN}\U0001f600\u2028",
    "\ud800",
    "a\udfffb",
    "\ud83d\ude00",
    b"",
    b"\x00\xff",
    bytes(range(256)),
    [],
    [[]],
    [1, [2, [3, ["deep"]]]],
    {},
    {"a": 1, "b": [True, None, {"c": b"x"}]},
    {"": 0, "$": 1, " ": 2, "\ud800": 3, "{x": 4},
    {"$": ["int", "ff"]},
    ["$", {"$": ["dict", 1, 2]}],
    [{"x": i, "y": [i, str(i)]} for i in range(2000)],
]


def test_a_module_that_is_not_there(box: fastness.Sandbox, tier: str) -> None:
    """The error ends with its name, and not with what the interpreter suggests to whoever has started it."""
    assert box.run("import no_such_module").stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")
    if tier == "wasm":
        # The traceback of its interpreter adds the hint to whatever the message is.
        return
    hint = "No module named 'x'. Site initialization is disabled, did you forget to add something?"
    assert box.run(f"raise ModuleNotFoundError({hint!r})").stderr.endswith("Error: No module named 'x'\n")
    assert box.run(f"raise ImportError({hint!r})").stderr.endswith("something?\n")


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_round_trip(box: fastness.Sandbox, value: Any) -> None:
    """Every kind of plain data returns equal and with the same types, from expressions and from names."""
    code = f"{value!r}" if value != 10**5000 else "10**5000"
    for source in (code, f"x = {code}\nx"):
        result = box.run(source)
        assert result.outcome.kind is OutcomeKind.OK, result.stderr
        assert same(result.value, value)
        assert result.value_repr is None
        json.loads(result.to_json())


def same(one: Any, other: Any) -> bool:
    """Equality that tells True from 1 and 0.0 from -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return math.copysign(1, one) == math.copysign(1, other) and (one == other or (one != one and other != other))
    return bool(one == other)


@pytest.mark.parametrize("source", ["-0.0", "float('nan')", "float('inf')", "float('-inf')", "[float('nan'), -0.0]"])
def test_odd_floats(box: fastness.Sandbox, source: str) -> None:
    """NaN, infinities and negative zero survive, and are strings in JSON where it has no number for them."""
    value = box.run(source).value
    assert same(value, eval(source))


def test_in_json(box: fastness.Sandbox) -> None:
    """What JSON cannot hold is a string there."""
    source = "[float('nan'), float('inf'), -float('inf'), b'a\\xff', 2**53, -2**60, '\\ud800', 2**53 - 1, 1.5, (1, 2)]"
    document = json.loads(box.run(source).to_json())
    assert document["value"] == [
        "nan", "inf", "-inf", "a\\xff", str(2**53), str(-(2**60)), "\\ud800", 2**53 - 1, 1.5, [1, 2],
    ]  # fmt: skip
    assert document["schema"] == 1


def test_tuples_become_lists(box: fastness.Sandbox) -> None:
    """Tuples of any depth are lists."""
    assert box.run("(1, (2, [(3,)]), ())").value == [1, [2, [[3]]], []]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{1, 2}", "{1, 2}"),
        ("{1: 2}", "{1: 2}"),
        ("1j", "1j"),
        ("range(3)", "range(0, 3)"),
        ("...", "Ellipsis"),
        ("bytearray(b'x')", "bytearray(b'x')"),
        ("[1, {2}]", "[1, {2}]"),
        ("import decimal; decimal.Decimal('1.5')", "Decimal('1.5')"),
        ("import enum\nclass E(enum.IntEnum):\n  A = 1\nE.A", "<E.A: 1>"),
        ("class I(int): pass\nI(5)", "5"),
        ("class S(str): pass\nS('x')", "'x'"),
        ("class D(dict): pass\nD(a=1)", "{'a': 1}"),
        ("class A:\n  def __repr__(self): return 'mine'\nA()", "mine"),
        ("class A:\n  def __repr__(self): raise ValueError\nA()", "<A: repr raised ValueError>"),
        ("class A:\n  def __repr__(self): return 5\nA()", "<A: repr raised TypeError>"),
        ("class A:\n  def __repr__(self): raise SystemExit(3)\nA()", "<A: repr raised SystemExit>"),
        ("class A:\n  def __repr__(self): return '\\ud800'\nA()", "\\ud800"),
        ("lambda: 1", "<function <lambda>"),
        ("object", "<class 'object'>"),
        ("import numpy; numpy.float64(1.5)", "np.float64(1.5)"),
        ("import numpy; numpy.arange(3)", "array([0, 1, 2])"),
        ("x = []; x.append(x); x", "[[...]]"),
        ("x = {}; x['x'] = x; x", "{'x': {...}}"),
        ("import math; math", "<module 'math'"),
    ],
)
def test_what_is_not_plain(box: fastness.Sandbox, source: str, shown: str) -> None:
    """Anything else has no value but a text, and no method of it runs on the host."""
    result = box.run(source)
    assert result.outcome.kind is OutcomeKind.OK, result.stderr
    assert result.value is None
    assert result.value_repr is not None and result.value_repr.startswith(shown)


@pytest.mark.tiers("wasm")
def test_texts_are_capped(box: fastness.Sandbox) -> None:
    """A huge repr is cut; a value too large or too deep to be carried becomes its repr."""
    for source in (
        "class A:\n  def __repr__(self): return 'x' * (50 << 20)\nA()",
        "'x' * (50 << 20)",
        "bytes(50 << 20)",
        "[0] * 10_000_000",
        "x = []\nfor _ in range(1000): x = [x]\nx",
        "x = []\nfor _ in range(40): x = [x, x]\nx",
        "1 << 50_000_000",
    ):
        result = box.run(source, timeout=3)
        assert result.value is None
        if result.outcome.kind is OutcomeKind.OK:
            assert result.value_repr is not None
            assert len(result.value_repr) <= 4200
        else:
            # repr of the last list would take for ever: it is the guest's own time.
            assert result.outcome.kind in (OutcomeKind.TIMEOUT, OutcomeKind.MEMORY, OutcomeKind.GUEST_ERROR)
        assert box.run("1").value == 1


def test_no_value(box: fastness.Sandbox) -> None:
    """Statements, errors and exits have no value."""
    for source in ("x = 1", "def f(): pass", "5; x = 1", "1/0", "import sys; sys.exit(1)", "for i in [1]: i"):
        result = box.run(source)
        assert (result.value, result.value_repr) == (None, None)


def test_value_is_not_a_live_object(box: fastness.Sandbox) -> None:
    """Patching types or the encoder inside the guest forges at most other plain data."""
    for source in (
        "import builtins; builtins.type = lambda x: str; 5",
        'import _fastness_encode as e; e.encode = lambda *a: b\'{"$":["evil",1]}\'; 5',
        "import _fastness as f; f.encode = lambda *a: b'[' * 10**6; 5",
        "import _fastness as f; f.encode = lambda *a: b'\"' + b'x' * 5_000_000 + b'\"'; 5",
        "import _fastness as f; f.encode = lambda *a: b'1e999'; 5",
        'import _fastness as f; f.encode = lambda *a: b\'{"a":1,"a":2}\'; 5',
        "import _fastness as f; f.encode = lambda *a: 'text'; 5",
    ):
        result = box.run(source)
        assert result.outcome.kind in (OutcomeKind.OK, OutcomeKind.PROTOCOL, OutcomeKind.GUEST_ERROR)
        assert result.value is None or isinstance(result.value, (int, float, str, dict))
        assert box.run("1").value == 1
