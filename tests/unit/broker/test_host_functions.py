"""Functions of the host, as guests may call them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from fastness.broker.functions import Functions, HostScope
from fastness.broker.gate import arguments_of
from fastness.capability import CallContext
from fastness.errors import AdapterError, ConfigurationError, Denied
from fastness.runs import DenialCode


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    More words.
    """
    return a + b


async def later(text: str, *, times: int = 1) -> str:
    """Say it again."""
    await asyncio.sleep(0)
    return text * times


def call(functions: Functions, name: str, given: Any) -> Any:
    operation = functions.spec.operation(name)
    assert operation is not None
    context = CallContext(plugin="", owner="", run="r", scope=HostScope(names=(name,)), deadline=time.monotonic() + 5)
    return asyncio.run(functions.call(name, arguments_of(operation, given), context))


def test_plain_and_async_functions_are_called() -> None:
    functions = Functions({"add": add, "later": later})
    assert call(functions, "add", {"a": 1}) == 3
    assert call(functions, "add", {"a": 1, "b": 5}) == 6
    assert call(functions, "later", {"text": "ab", "times": 2}) == "abab"


@pytest.mark.parametrize("given", [{}, {"a": "1"}, {"a": 1.5}, {"a": 1, "c": 2}, {"a": True, "b": None}, [1, 2], 1])
def test_arguments_of_another_type_are_refused(given: Any) -> None:
    operation = Functions({"add": add}).spec.operation("add")
    assert operation is not None
    with pytest.raises(msgspec.ValidationError):
        arguments_of(operation, given)


def no_type(a) -> None:  # type: ignore[no-untyped-def]  # what is tested
    ...


def spread(*values: int) -> None: ...


def by_position(a: int, /) -> None: ...


def unknown(a: object) -> None: ...


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("f", no_type), ("f", spread), ("f", by_position), ("_f", add), ("class", add), ("a b", add), ("", add),
        ("é", add), ("f", 1),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_refused_when_it_is_given(name: str, function: Any) -> None:
    with pytest.raises(ConfigurationError, match="functions"):
        Functions({name: function})


def test_errors_cross_without_words_of_the_host() -> None:
    def fails(a: int) -> int:
        raise RuntimeError("/home/of/the/host")

    def refuses(a: int) -> int:
        raise Denied(DenialCode.OUTSIDE, "a")

    functions = Functions({"fails": fails, "refuses": refuses})
    with pytest.raises(AdapterError, match=r"^fails failed \(RuntimeError\)$"):
        call(functions, "fails", {"a": 1})
    with pytest.raises(Denied):
        call(functions, "refuses", {"a": 1})


def test_only_those_of_given_names_are_there() -> None:
    functions = Functions({"add": add, "later": later}).limited(("add", "other"))
    assert [one.name for one in functions.spec.operations] == ["add"]
    spec = functions.spec
    assert spec.meet(HostScope(names=("add", "x")), HostScope(names=("add",))) == HostScope(names=("add",))
    assert spec.meet(HostScope(names=("add",)), HostScope()) is None
    assert spec.exceeds(HostScope(names=("add", "x")), HostScope(names=("add",))) == ["call the host's function x"]


def test_stubs_are_source_text() -> None:
    functions = Functions({"add": add, "later": later})
    python = functions.stubs()
    assert "def add(a: 'int', b: 'int' = 2) -> 'int':" in python
    assert "'Add two numbers.\\n\\nMore words.'" in python
    compile(python, "<stubs>", "exec")
    script = functions.stubs("javascript")
    assert "async function later({ text, times }) {}" in script
    assert "/** Say it again. */" in script
