"""Functions of the host in the words of two languages: each type, each default, and what would break out of a stub."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import msgspec
import pytest

from fastness.broker.signatures import javascript, python, signature

T = typing.TypeVar("T")
OLD = typing.Optional[str]  # noqa: UP045  # as older programs write it, which makes another type of it


class Point(msgspec.Struct, rename={"x": "left"}):
    x: int
    y: int = 0


@dataclasses.dataclass
class Sizes:
    width: float
    height: float = 1.0
    names: list[str] = dataclasses.field(default_factory=list)


class Words(TypedDict):
    text: str
    language: NotRequired[str]


class Rest(TypedDict, total=False):
    seconds: int
    whose: Annotated[Required[str], "a name"]


class Four(msgspec.Struct):
    end: Point


class Three(msgspec.Struct):
    four: Four


class Two(msgspec.Struct):
    three: Three


class One(msgspec.Struct):
    two: Two


class Opaque:
    pass


def _signed(hint: Any, default: Any = inspect.Parameter.empty) -> tuple[inspect.Signature, dict[str, Any]]:
    one = inspect.Parameter("a", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
    return inspect.Signature([one]), {"a": hint}


def in_python(hint: Any, default: Any = inspect.Parameter.empty) -> str:
    return signature(*_signed(hint, default)).removeprefix("(a: ").removesuffix(")")


def in_javascript(hint: Any, default: Any = inspect.Parameter.empty) -> str:
    text = javascript("f", *_signed(hint, default), "")
    return text.split("@param {", 1)[1].split("\n", 1)[0]


@pytest.mark.parametrize(
    ("hint", "one", "other"),
    [
        (int, "int", "number"), (float, "float", "number"), (bool, "bool", "boolean"), (str, "str", "string"), (bytes, "bytes", "Uint8Array"),
        (None, "None", "null"), (type(None), "None", "null"), (Any, "Any", "*"), (object, "Any", "*"), (T, "Any", "*"), (list, "list", "Array"),
        (dict, "dict", "object"), (tuple, "tuple", "Array"), (set, "set", "Array"), (Opaque, "Opaque", "string"), (Annotated[int, "more"], "int", "number"),
        (int | None, "int | None", "number|null"), (OLD, "str | None", "string|null"), (int | float, "int | float", "number"),
        (Literal["a", 2], "Literal['a', 2]", '"a"|2'), (list[int], "list[int]", "Array<number>"),
        (set[str], "set[str]", "Array<string>"), (tuple[int, ...], "tuple[int, ...]", "Array<number>"), (tuple[int, str], "tuple[int, str]", "Array<number|string>"),
        (tuple[int, int], "tuple[int, int]", "Array<number>"), (dict[str, list[int]], "dict[str, list[int]]", "Object<string, Array<number>>"),
        (Mapping[str, int], "Mapping[str, int]", "Object<string, number>"), (Annotated[list[int] | None, 1], "list[int] | None", "Array<number>|null"),
        (Point, '{"left": int, "y": int}', "{left: number, y?: number}"),
        (Sizes, '{"width": float, "height": float, "names": list[str]}', "{width: number, height?: number, names?: Array<string>}"),
        (Words, '{"text": str, "language": str}', "{text: string, language?: string}"),
        (Rest, '{"seconds": int, "whose": str}', "{seconds?: number, whose: string}"), (list[Point], 'list[{"left": int, "y": int}]', "Array<{left: number, y?: number}>"),
        (One, '{"two": {"three": {"four": dict}}}', "{two: {three: {four: object}}}"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_type_in_both_languages(hint: Any, one: str, other: str) -> None:
    """As what a guest gives: an object with keys for a class with fields, three of them inside each other at most."""
    assert in_python(hint) == one
    assert in_javascript(hint) == other + "} a"


@pytest.mark.parametrize(
    ("default", "one", "other"),
    [
        (1, "1", "[a=1]"), (None, "None", "[a=null]"), (True, "True", "[a=true]"), ("x", "'x'", '[a="x"]'), (b"x", "b'x'", "[a]"), (1.5, "1.5", "[a=1.5]"),
        ((1, 2), "(1, 2)", "[a]"), ({}, "{}", "[a={}]"), (float("nan"), "...", "[a]"), ([float("inf")], "...", "[a]"), ([inspect.Parameter], "...", "[a]"), ([Fraction(1)], "...", "[a]"), (Opaque(), "...", "[a]"), ([Opaque()], "...", "[a]"),
        ("y" * 98, repr("y" * 98), f'[a="{"y" * 98}"]'), ("y" * 99, "...", "[a]"), ("]", "']'", "[a]"), ("*/", "'*/'", "[a]"), ({"k": {1}}, "{'k': {1}}", "[a]"), (-1, "-1", "[a=-1]"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_default_in_both_languages(default: Any, one: str, other: str) -> None:
    """As it is written without any names, up to 100 characters; else that there is one."""
    assert in_python(Any, default) == f"Any = {one}"
    exec(python("f", f"(a = {one})", ""), {})
    assert in_javascript(Any, default) == "*} " + other


@pytest.mark.parametrize("hint", [Point, Sizes, Words, Rest])
def test_keys_that_may_be_left_out_are_those_of_the_decoder(hint: Any) -> None:
    """What a stub says of a key is what becomes of arguments without it."""
    whole = {
        "left": 1,
        "y": 1,
        "width": 1.0,
        "height": 1.0,
        "names": [],
        "text": "",
        "language": "",
        "seconds": 1,
        "whose": "",
    }
    keys = in_javascript(hint).removeprefix("{").partition("}")[0].split(", ")
    needed = {key.partition(":")[0]: "?" not in key for key in keys}
    given = {name.removesuffix("?"): whole[name.removesuffix("?")] for name in needed}
    for name, must in needed.items():
        without = {key: value for key, value in given.items() if key != name.removesuffix("?")}
        if must:
            with pytest.raises(msgspec.ValidationError, match="missing"):
                msgspec.convert(without, hint)
        else:
            msgspec.convert(without, hint)


def _of(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    return inspect.signature(function), typing.get_type_hints(function)


def test_what_comes_back_is_shown_as_deep() -> None:
    """As what is given: three classes inside each other."""

    def some() -> One: ...

    assert signature(*_of(some)) == '() -> {"two": {"three": {"four": dict}}}'
    assert "@returns {Promise<{two: {three: {four: object}}}>}" in javascript("f", *_of(some), "")


def test_parameters_that_have_names_only() -> None:
    """One star before the first of them; what comes back stands there where it is known."""

    def some(a: int, *, b: int, c: str = "x") -> bool: ...

    def none() -> None: ...

    def unsaid(a: int):  # type: ignore[no-untyped-def]  # what is tested
        ...

    assert signature(*_of(some)) == "(a: int, *, b: int, c: str = 'x') -> bool"
    assert signature(*_of(none)) == "() -> None"
    assert signature(*_of(unsaid)) == "(a: int)"
    assert javascript("f", *_of(some), "") == (
        '/**\n * @param {number} a\n * @param {number} b\n * @param {string} [c="x"]\n * @returns {Promise<boolean>}\n */\n'
        "async function f(a, b, c) {}\n"
    )
    assert "@returns {Promise<*>}" in javascript("f", *_of(unsaid), "")


def test_documentation_of_a_stub() -> None:
    """On one line or on many, in quotes that it does not end; without any there are none."""
    assert python("f", "()", "") == "def f():\n    ...\n"
    assert python("f", "()", "Say it.") == 'def f():\n    """Say it."""\n    ...\n'
    assert python("f", "()", "Say.\n\nMore.") == 'def f():\n    """\n    Say.\n\n    More.\n    """\n    ...\n'
    assert python("f", "()", 'Say "it" now') == 'def f():\n    """Say "it" now"""\n    ...\n'
    assert python("f", "()", 'Say "it"') == 'def f():\n    """Say \\"it\\""""\n    ...\n'
    assert python("f", "()", 'a """ b') == 'def f():\n    """a \\"\\"\\" b"""\n    ...\n'
    assert python("f", "()", "a\\b") == 'def f():\n    """a\\\\b"""\n    ...\n'
    assert javascript("f", *_of(lambda: None), "Say */ it.\n\nMore.") == (
        "/**\n * Say *\\/ it.\n *\n * More.\n *\n * @returns {Promise<*>}\n */\nasync function f() {}\n"
    )
