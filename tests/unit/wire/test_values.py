"""Values: plain data crosses exactly, anything else is named, and what a guest sends is checked."""

from __future__ import annotations

import json
import math
import struct
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastness.errors import GuestProtocolError
from fastness.guest import encode as guest
from fastness.wire import values

TEXT = st.text(st.characters(), max_size=20) | st.text(st.sampled_from('$"\\\ud800\udfff\x00\n\u2028\x7fa'), max_size=6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53 - 1, 2**53, -(2**53), 1 - 2**53, 2**64, -(2**200)])
    | st.floats()
    | TEXT
    | st.binary(max_size=20)
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=30,
)


def same(a: Any, b: Any) -> bool:
    """Equal, of the same types, bit for bit in floats."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    if type(a) is list:
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    return bool(a == b)


@settings(deadline=None)
@given(PLAIN)
@example({"$": ["float", "nan"]})
@example([-0.0, 1e16, 1e300, 5e-324, 1.0, 0.1])
@example("\ud83d\ude00")
def test_plain_data_comes_back_exactly(value: Any) -> None:
    """Both writers produce what the reader restores, and it is valid JSON in UTF-8."""
    wire = values.encode(value)
    assert same(values.decode(wire), value)
    inside = guest.encode(value, values.MAX_BYTES)
    assert inside is not None
    assert same(values.decode(inside), value)
    json.loads(inside.decode())


def test_tuples_become_lists() -> None:
    """A tuple is sent, a list arrives."""
    assert values.decode(values.encode((1, (2, ())))) == [1, [2, []]]
    assert guest.encode((1, (2, ())), 100) == b"[1,[2,[]]]"


class Loud:
    """Fails the test whenever any of its methods is asked for anything."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    def _fail(self, *args: object) -> Any:
        raise AssertionError

    __len__ = __iter__ = __repr__ = __str__ = __bool__ = __eq__ = __index__ = __float__ = _fail
    __hash__ = None  # type: ignore[assignment]  # trap


class LoudMeta(type):
    """A metaclass that fails when its classes are asked for their name."""

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(name)


class LoudDict(dict):  # type: ignore[type-arg]  # a trap
    """A dict that must not be looked into."""

    def items(self) -> Any:
        raise AssertionError


class LoudStr(str):
    """A text with methods of its own."""

    def encode(self, *args: Any) -> Any:
        raise AssertionError


class LoudClass(metaclass=LoudMeta):
    """Its name cannot be asked for in the usual way."""


Point = namedtuple("Point", "x y")
DEEP: list[Any] = []
DEEP.append(DEEP)


# Made when used: pytest itself asks its parameters for more than these can bear.
ODD: dict[str, tuple[Callable[[], object], str, str]] = {
    "instance": (Loud, "$", "Loud"),
    "deep": (lambda: {"rows": [1, 2, 3, {"fn": print}]}, "$.rows[3].fn", "builtin_function_or_method"),
    "spaces": (lambda: [{"a b": {1}}], "$[0]['a b']", "set"),
    "dollar": (lambda: {"$": object()}, "$['$']", "object"),
    "int key": (lambda: {1: 2}, "$[...]", "a key of type int"),
    "str subclass key": (lambda: {LoudStr("k"): 2}, "$[...]", "a key of type LoudStr"),
    "str subclass": (lambda: [LoudStr("x")], "$[0]", "LoudStr"),
    "dict subclass": (lambda: LoudDict(a=1), "$", "LoudDict"),
    "loud class": (lambda: object.__new__(LoudClass), "$", "LoudClass"),
    "ordered": (OrderedDict, "$", "OrderedDict"),
    "namedtuple": (lambda: Point(1, 2), "$", "Point"),
    "bytearray": (lambda: bytearray(b"x"), "$", "bytearray"),
    "complex": (lambda: 1j, "$", "complex"),
}


@pytest.mark.parametrize("name", list(ODD))
def test_what_is_not_plain_is_named_with_its_path(name: str) -> None:
    """The first part that cannot cross is named; none of its methods run."""
    make, path, type_name = ODD[name]
    value = make()
    with pytest.raises(values.NotPlain) as caught:
        values.encode(value)
    assert (caught.value.path, caught.value.type_name) == (path, type_name)
    assert guest.encode(value, values.MAX_BYTES) is None


def nest(depth: int) -> Any:
    value: Any = []
    for level in range(depth - 1):
        value = {"$": value} if level % 2 else [value]
    return value


def test_depth_is_the_same_limit_everywhere() -> None:
    """200 containers deep crosses, also where each needs a tag; 201 does not, and a cycle ends."""
    value = nest(values.MAX_DEPTH)
    for wire in (values.encode(value), guest.encode(value, values.MAX_BYTES)):
        assert wire is not None
        assert values.decode(wire) == value
    for bad in (nest(values.MAX_DEPTH + 1), DEEP):
        with pytest.raises(values.NotPlain, match="nested more than 200 deep"):
            values.encode(bad)
        assert guest.encode(bad, values.MAX_BYTES) is None


def test_shared_parts_are_given_up_before_they_are_unfolded() -> None:
    """A small value that stands for a huge one is refused in little time and memory."""
    bomb: Any = "x" * 100
    for _ in range(60):
        bomb = [bomb, bomb]
    with pytest.raises(values.NotPlain, match="too many"):
        values.encode(bomb)
    assert guest.encode(bomb, values.MAX_BYTES) is None


@pytest.mark.parametrize("value", ["x" * 100, b"x" * 100, [1] * 100, {str(i): 1 for i in range(40)}, 1 << 500])
def test_the_size_cap_is_on_the_encoded_bytes(value: object) -> None:
    """One byte less than it needs, and it is refused by both writers."""
    size = len(values.encode(value))
    assert len(values.encode(value, size)) == size
    with pytest.raises(values.NotPlain):
        values.encode(value, size - 1)
    inside = guest.encode(value, 10_000)
    assert inside is not None
    assert guest.encode(value, len(inside)) == inside
    assert guest.encode(value, len(inside) - 1) is None


@pytest.mark.parametrize("leaf", [[], {}, float("nan"), 2**60], ids=repr)
def test_more_containers_than_the_reader_takes_are_not_sent(leaf: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """What either writer sends, the reader takes: all three count alike."""
    assert guest._CONTAINERS == values.MAX_CONTAINERS
    assert guest._DEPTH == values.MAX_DEPTH
    monkeypatch.setattr(guest, "_CONTAINERS", 1001)
    monkeypatch.setattr(values, "MAX_CONTAINERS", 1001)
    each = 1 if leaf in ([], {}) else 2
    most = [leaf] * ((values.MAX_CONTAINERS - 1) // each)
    for wire in (values.encode(most, 1 << 24), guest.encode(most, 1 << 24)):
        assert wire is not None
        assert len(values.decode(wire, 1 << 24)) == len(most)
    with pytest.raises(values.NotPlain, match="too many lists"):
        values.encode([*most, leaf], 1 << 24)
    assert guest.encode([*most, leaf], 1 << 24) is None


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"{",
        b"NaN",
        b"1e400",
        b"\xff",
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b"1 2",
        b"9007199254740992",
        b"[-9007199254740992]",
        b'{"a": 9007199254740992}',
        b"1" * 5000,
        b'{"$": 1}',
        b'{"$": []}',
        b'{"$": ["float"]}',
        b'{"$": ["float", "1.5"]}',
        b'{"$": ["float", "nan"], "x": 1}',
        b'{"$": ["float", "nan", 1]}',
        b'{"$": ["float", ["nan"]]}',
        b'{"$": ["pickle", "gASV"]}',
        b'{"$": [["int"], "1"]}',
        b'{"$": ["int", "0x10"]}',
        b'{"$": ["int", "1_0"]}',
        b'{"$": ["int", "\xd9\xa1"]}',
        b'{"$": ["int", " 1"]}',
        b'{"$": ["int", ""]}',
        b'{"$": ["int", 5]}',
        b'{"$": ["bytes", "AP8"]}',
        b'{"$": ["bytes", "A P8="]}',
        b'{"$": ["bytes", "\xc3\xa4AP8="]}',
        b'{"$": ["str", "/w=="]}',
        b'{"$": ["dict", "a"]}',
        b'{"$": ["dict", 1, 2]}',
        b'{"$": ["dict", "a", 1, "a", 2]}',
        b'{"$": ["dict", [], 2]}',
        b"[" * 100_000,
        b"[" * 201 + b"]" * 201,
        b"[" * 900 + b"]" * 900,
        b'{"$": ["dict", "a",' * 300 + b"1" + b"]}" * 300,
        b"[" + b"[]," * 300_000 + b"[]]",
    ],
)
def test_what_the_format_does_not_have_is_a_protocol_error(wire: bytes) -> None:
    """Malformed tags, JSON beyond the format, and shapes made to cost memory all raise the same error."""
    with pytest.raises(GuestProtocolError):
        values.decode(wire)


def test_brackets_in_texts_are_no_containers() -> None:
    """A text that holds JSON is one text, however many brackets it has."""
    value = ["[" * 600_000, '"[' * 300_000]
    assert values.decode(values.encode(value)) == value


def test_counting_containers_takes_linear_time_on_strings_that_never_end() -> None:
    """Strings that a failed match would be tried on again and again are passed over once."""
    for body in (b'\\"' * 1_000_000, b'"' + b"\\" * 2_000_001, b'"\\' * 1_000_000):
        with pytest.raises(GuestProtocolError):
            values.decode(b"[" * 300_000 + b'"' + body)


def test_a_value_over_the_cap_is_refused_unread() -> None:
    """The size is checked first."""
    with pytest.raises(GuestProtocolError, match="at most 10"):
        values.decode(b"x" * 11, 10)


@settings(deadline=None)
@given(PLAIN)
def test_json_output_is_strict_json(value: Any) -> None:
    """What ``--json`` prints parses without extensions and is UTF-8."""
    text = json.dumps(values.to_json(value), allow_nan=False, ensure_ascii=False)
    text.encode()


def test_json_output_shows_odd_values_as_text() -> None:
    """Each value that JSON lacks has its stated text."""
    odd = [float("nan"), float("-inf"), 2**53, b"\x00a\xff", "\ud800", -0.0, {"\udcff": 2**20000}]
    shown = values.to_json(odd)
    assert shown[:5] == ["nan", "-inf", "9007199254740992", "\\x00a\\xff", "\\ud800"]
    assert math.copysign(1, shown[5]) == -1
    assert shown[6] == {"\\udcff": "0x1" + "0" * 5000}


@settings(deadline=None)
@given(st.text(st.sampled_from('[{"\\\\a'), max_size=40).map(str.encode))
def test_containers_are_counted_outside_strings_only(data: bytes) -> None:
    """The count is right to within one, also where a string never ends, and is never too high."""
    count, inside, skip = 0, False, False
    for byte in data:
        if not skip and byte == ord("\\"):
            # Outside a string it is no JSON, and what is made of it there does not matter.
            skip = True
            continue
        if byte == ord('"'):
            inside ^= not skip
        elif not inside:
            count += byte in b"[{"
        skip = False
    values.check_containers(data, count - values.MAX_CONTAINERS)
    if count >= 2:
        with pytest.raises(GuestProtocolError):
            values.check_containers(data, count - 2 - values.MAX_CONTAINERS)


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(st.sampled_from('[]{}",:$\\1-.einfatrulsd'), max_size=60).map(str.encode))
def test_random_bytes_decode_or_raise_the_one_error(wire: bytes) -> None:
    """Nothing but a value or GuestProtocolError comes of any input."""
    try:
        value = values.decode(wire)
    except GuestProtocolError:
        return
    assert same(values.decode(values.encode(value)), value)


def test_the_guest_writer_leaves_the_limit_of_user_code_alone() -> None:
    """A recursion limit that user code lowered makes a value not plain, not an error."""
    import sys

    old = sys.getrecursionlimit()
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1  # type: ignore[assignment]  # as above
    sys.setrecursionlimit(used + 60)
    try:
        assert guest.encode(nest(150), values.MAX_BYTES) is None
    finally:
        sys.setrecursionlimit(old)
