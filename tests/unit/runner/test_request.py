"""From what a caller wrote to a request: whatever it is, a request or an error that names a field."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.errors import ConfigurationError, FastnessError, StagingError
from fastness.limits import RANGES, Limits, parse_size
from fastness.runner import request as requests
from fastness.runs import RunRequest

_ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.sampled_from(["python", "wasi", "command", "1G", "-1", "\0", "..", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(
    _ANYTHING,
    st.dictionaries(st.sampled_from(requests.OPTIONS), _ANYTHING, max_size=5),
    st.dictionaries(st.sampled_from([*requests.OPTIONS, "nonsense"]), _ANYTHING, max_size=2),
)
def test_anything(code: Any, options: dict[str, Any], defaults: dict[str, Any]) -> None:
    """No input raises anything but our own errors; what is accepted is sound and travels."""
    try:
        made = requests.make(code, options, defaults)
    except StagingError:
        return
    except ConfigurationError as error:
        assert error.field
        assert str(error)
        return
    assert isinstance(made, RunRequest)
    given_things = [thing for thing in (made.code, made.module, made.command) if thing is not None]
    assert len(given_things) == 1
    for name, (low, high) in RANGES.items():
        assert low <= getattr(made.limits, name) <= high
    assert all("\0" not in text for text in (*made.args, *made.env, *made.env.values()))
    assert made.time is None or (math.isfinite(made.time) and made.time >= 0)
    assert len(msgspec.json.encode([made.args, made.env, made.preopens, made.preload])) <= 1 << 20


@given(st.dictionaries(st.sampled_from(list(RANGES)), st.integers() | st.floats() | st.text(max_size=5), max_size=4))
def test_limits_layer(changes: dict[str, Any]) -> None:
    """A dict changes what it names and keeps the sandbox's others, or is refused whole, with the name."""
    base = {"limits": {"files": 7}, "timeout": 3}
    try:
        made = requests.make("", {"limits": changes}, base)
    except ConfigurationError as error:
        assert error.field.removeprefix("limits.") in {*RANGES, "limits", "timeout"}
        return
    expected = {**{name: getattr(Limits(), name) for name in RANGES}, "files": 7, "wall_s": 3.0, **changes}
    for name, value in expected.items():
        if name != "cpu_s" or name in changes:
            assert getattr(made.limits, name) == value


@given(st.text(max_size=40) | st.integers() | st.floats() | st.none())
def test_sizes(value: Any) -> None:
    """A size is a whole number of bytes or an error, for any text."""
    try:
        size = parse_size(value)
    except ConfigurationError:
        return
    assert isinstance(size, int)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1", 1), ("1k", 1024), ("1.5 KiB", 1536), ("64KB", 65536), ("2 G", 2 << 30), (" 3m ", 3 << 20), (5, 5)],
)
def test_good_sizes(text: Any, size: int) -> None:
    """All units are powers of 1024."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "1X", "-1", "1e3", "1" * 33, "0x10", True, None, 1.5, b"1"])
def test_bad_sizes(text: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(ConfigurationError):
        parse_size(text)


def test_errors_say_what_would_do() -> None:
    """Field, value and what is allowed are all in the text."""
    with pytest.raises(FastnessError) as caught:
        requests.make("1", {"timeout": -1}, {})
    text = str(caught.value)
    assert "timeout" in text
    assert "-1" in text
    assert str(RANGES["wall_s"][1])[:5] in text


def test_code_over_defaults() -> None:
    """The short way of a call that says nothing but its code gives what the long one gives."""
    base = requests.make("", {}, {"timeout": 3, "args": ["a"]})
    assert requests.with_code(base, "1") == requests.make("1", {}, {"timeout": 3, "args": ["a"]})
    with pytest.raises(ConfigurationError):
        requests.with_code(base, b"1")


def test_a_project_is_for_commands(tmp_path: Path) -> None:
    """An existing folder, as an absolute path; for anything else it is refused by name."""
    request = requests.make(None, {"command": ["make"], "work": tmp_path, "include": [".env"]}, {})
    assert (request.command, request.work, request.include) == (("make",), str(tmp_path), (".env",))
    with pytest.raises(StagingError, match="no such folder"):
        requests.make(None, {"command": ["make"], "work": tmp_path / "none"}, {})
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StagingError, match="it is no folder"):
        requests.make(None, {"command": ["make"], "work": str(tmp_path / "file")}, {})
    for options in ({"work": 3}, {"work": b"x"}, {"include": ["x"]}, {"work": "/", "include": "x"}):
        with pytest.raises(ConfigurationError):
            requests.make(None, {"command": ["make"], **options}, {})
    with pytest.raises(ConfigurationError, match="a command to run on it"):
        requests.make("pass", {"work": tmp_path}, {})


@pytest.mark.parametrize("command", [[], [""], "make", [b"make"], ["a\0b"], [1], {"make"}])
def test_a_command_is_a_list_of_texts(command: Any) -> None:
    """That begins with a program."""
    with pytest.raises(ConfigurationError, match="command"):
        requests.make(None, {"command": command}, {})


@pytest.mark.parametrize(
    "value", ["s3cr3t-value\udc80", "s3cr3t-value\0", b"s3cr3t-value", "s3cr3t-value" * 100_000, ["s3cr3t-value"]]
)
@pytest.mark.parametrize("name", ["API_KEY", "PLAIN"])
def test_no_message_has_the_value_of_a_variable(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        requests.make("1", {"env": {name: value}}, {})
    assert name in str(caught.value)
    assert "s3cr3t" not in f"{caught.value}{caught.value.value}{caught.value.allowed}"
    # Nor what a traceback shows of where it came from.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "value"), [("seed", 0), ("seed", 7), ("args", ["x"]), ("preload", ["json"]), ("filename", "x")]
)
def test_a_command_takes_nothing_of_source_texts(name: str, value: Any) -> None:
    """Also where the value is one that counts as false."""
    with pytest.raises(ConfigurationError, match=name):
        requests.make(None, {"command": ["true"], name: value}, {})


@pytest.mark.parametrize(
    ("name", "value"), [("args", []), ("args", ()), ("preload", []), ("filename", ""), ("seed", None)]
)
def test_nothing_is_nothing(name: str, value: Any) -> None:
    assert requests.make(None, {"command": ["true"], name: value}, {}).command == ("true",)
