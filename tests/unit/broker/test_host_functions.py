"""Functions of the host, as guests may call them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import math
import os
import threading
import time
from typing import Any, Literal

import msgspec
import pytest

from fastness.broker import portal
from fastness.broker.functions import Functions, HostFunction, HostScope
from fastness.broker.gate import arguments_of
from fastness.broker.threads import Threads, outlived
from fastness.capability import CallContext
from fastness.errors import AdapterError, CapabilityError, ConfigurationError, Denied
from fastness.runs import DenialCode

_START = object()


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
        ("é", add), ("f", 1), ("ctx", add),
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


class Point(msgspec.Struct):
    x: int
    y: int = 0


def walk(
    to: Point, how: Literal["slow", "fast"] = "slow", *, via: list[str] | None = None, at: object = _START
) -> dict[str, Point]:
    """Ends in "quotes"."""
    return {}


def test_stubs_are_source_text() -> None:
    """Both languages: what is there can be read by their own parsers, and has types, defaults and documentation."""
    functions = Functions({"add": add, "later": later, "walk": walk})
    text = functions.stubs()
    made: dict[str, Any] = {}
    exec(compile("from __future__ import annotations\n" + text, "<stubs>", "exec"), made)
    assert inspect.getdoc(made["add"]) == inspect.getdoc(add)
    assert inspect.getdoc(made["walk"]) == inspect.getdoc(walk)
    assert "def add(a: int, b: int = 2) -> int:" in text
    assert "def later(text: str, *, times: int = 1) -> str:" in text
    assert (
        """def walk(to: {"x": int, "y": int}, how: Literal['slow', 'fast'] = 'slow', *, """
        """via: list[str] | None = None, at: Any = ...) -> dict[str, {"x": int, "y": int}]:""" in text
    )
    script = functions.stubs("javascript")
    assert "async function walk(to, how, via, at) {}" in script
    assert ' * @param {{x: number, y?: number}} to\n * @param {"slow"|"fast"} [how="slow"]\n' in script
    assert " * @param {Array<string>|null} [via=null]\n * @param {*} [at]\n" in script
    assert " * @returns {Promise<Object<string, {x: number, y?: number}>>}" in script
    assert " * Add two numbers.\n *\n * More words.\n *\n * @param {number} a\n" in script
    with pytest.raises(ConfigurationError, match="language"):
        functions.stubs("rust")


@pytest.mark.parametrize("text", ['*/ alert(1) /* """ \\', 'a \\"', '"""" "', "a\nb\\\n  c", "*/"])
def test_documentation_ends_no_comment(text: str) -> None:
    """What would end a comment or a text is written so that it does not."""

    def odd(a: int) -> None: ...

    odd.__doc__ = text
    functions = Functions({"odd": odd})
    made: dict[str, Any] = {}
    exec(functions.stubs(), made)
    assert inspect.getdoc(made["odd"]) == inspect.getdoc(odd)
    comment = functions.stubs("javascript").split("/**", 1)[1]
    assert comment.index("*/") > comment.index("@returns")


def test_what_is_not_granted_is_not_called() -> None:
    """The scope of a call names the function, or it is refused here too, whatever the gate said."""
    functions = Functions({"add": add, "later": later})
    context = CallContext(plugin="", owner="", run="r", scope=HostScope(names=("later",)), deadline=math.inf)
    operation = functions.spec.operation("add")
    assert operation is not None
    with pytest.raises(Denied) as refused:
        asyncio.run(functions.call("add", arguments_of(operation, {"a": 1}), context))
    assert refused.value.code is DenialCode.NOT_GRANTED


def test_an_effect_of_unknown_reach_is_taken_to_leave() -> None:
    """The record of a call is synced unless the host says that its function stays on this machine."""
    functions = Functions({"far": add, "near": HostFunction(add, leaves=False)})
    assert [one.leaves for one in functions.spec.operations] == [True, False]
    assert [one.leaves for one in functions.limited(("near",)).spec.operations] == [False]


def test_words_of_an_error_that_is_meant_for_guests() -> None:
    def fails(a: int) -> int:
        raise CapabilityError("no such city")

    with pytest.raises(AdapterError, match=r"^no such city$"):
        call(Functions({"fails": fails}), "fails", {"a": 1})


class Adder:
    """Adds to what it was made with."""

    def __init__(self, base: int) -> None:
        self.base = base

    def __call__(self, a: int) -> int:
        return self.base + a

    async def later(self, a: int) -> int:
        return self.base - a


def test_objects_methods_and_partials() -> None:
    """Whatever can be called and has types."""
    one = Adder(5)
    functions = Functions({"plus": one, "minus": one.later, "two": functools.partial(add, b=2)})
    assert call(functions, "plus", {"a": 1}) == 6
    assert call(functions, "minus", {"a": 1}) == 4
    assert call(functions, "two", {"a": 1}) == 3


def test_a_function_of_another_loop_runs_in_it() -> None:
    """An async function of a program with a loop runs there, and a call that is cancelled comes to rest there."""
    seen: list[Any] = []

    async def where(a: int) -> int:
        seen.append(asyncio.get_running_loop())
        if a:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                seen.append("rested")
        return a

    def broker(functions: Functions, out: list[Any]) -> None:
        async def calls() -> None:
            operation = functions.spec.operation("where")
            assert operation is not None
            scope = HostScope(names=("where",))
            context = CallContext(plugin="", owner="", run="r", scope=scope, deadline=math.inf)
            out.append(await functions.call("where", arguments_of(operation, {"a": 0}), context))
            task = asyncio.create_task(functions.call("where", arguments_of(operation, {"a": 1}), context))
            while len(seen) < 2:  # noqa: ASYNC110  # what is waited for happens in another thread
                await asyncio.sleep(0.001)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            out.append(list(seen[2:]))

        asyncio.run(calls())

    async def program() -> tuple[Any, list[Any]]:
        here = asyncio.get_running_loop()
        out: list[Any] = []
        await asyncio.to_thread(broker, Functions({"where": where}).within(here), out)
        return here, out

    here, out = asyncio.run(program())
    assert out == [0, ["rested"]]
    assert seen[:2] == [here, here]


def test_threads_are_bounded_and_taken_again() -> None:
    """Functions that do not come back hold so many threads; others wait, and go on when one is free."""
    threads = Threads(2, 2)
    hold = threading.Event()
    names: list[str] = []

    def blocks() -> None:
        names.append(threading.current_thread().name)
        hold.wait(30)

    async def run() -> int:
        held = [asyncio.create_task(threads.run(blocks)) for _ in range(2)]
        while len(names) < 2:  # noqa: ASYNC110  # what is waited for happens in other threads
            await asyncio.sleep(0.001)
        for task in held:
            task.cancel()
        await asyncio.wait(held)
        waits = asyncio.create_task(threads.run(lambda: 7))
        given_up = asyncio.create_task(threads.run(lambda: names.append("called")))
        await asyncio.wait([waits, given_up], timeout=0.05)
        assert not waits.done()
        given_up.cancel()
        await asyncio.wait([given_up])
        hold.set()
        return await waits

    assert asyncio.run(run()) == 7
    assert names == ["fastness-function"] * 2


def test_what_a_thread_raises_comes_back() -> None:
    threads = Threads(1, 1)
    with pytest.raises(ValueError, match="no"):
        asyncio.run(threads.run(lambda: (_ for _ in ()).throw(ValueError("no"))))
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(threads.run(lambda: next(iter(()))))


def test_nobody_takes_the_threads_of_others() -> None:
    """However many threads one has that does not let them go, another one has its turn, and so has a third."""
    threads = Threads(3, 2)
    hold = threading.Event()
    begun: list[str] = []

    def blocks(whose: str) -> None:
        begun.append(whose)
        hold.wait(30)

    async def run() -> list[str]:
        tasks = [asyncio.create_task(threads.run(lambda: blocks("a"), "a")) for _ in range(5)]
        tasks += [asyncio.create_task(threads.run(lambda: blocks("b"), "b")) for _ in range(5)]
        while len(begun) < 3:  # noqa: ASYNC110  # what is waited for happens in other threads
            await asyncio.sleep(0.001)
        got = [await asyncio.wait_for(threads.run(lambda: "c", "c"), 10), await threads.run(lambda: "d", "d")]
        found = sorted(begun)
        hold.set()
        await asyncio.wait(tasks)
        return [*found, *got]

    assert asyncio.run(run()) == ["a", "a", "b", "c", "d"]
    assert sorted(begun) == ["a"] * 5 + ["b"] * 5
    # What was held is given back.
    assert (threads._busy, threads._held, threads._waiting) == (0, {}, {})


def test_a_run_that_has_ended_leaves_threads_for_other_plugins() -> None:
    """Functions that block in two runs hold no third one up."""
    hold = threading.Event()

    def block() -> None:
        hold.wait(30)

    functions = Functions({"block": block, "quick": lambda: 7})

    def context(plugin: str) -> CallContext:
        names = HostScope(names=("block", "quick"))
        return CallContext(plugin=plugin, owner="ann", run=plugin, scope=names, deadline=1e9)

    async def run() -> int:
        none = functions.spec.operations[0].arguments()
        tasks = [asyncio.create_task(functions.call("block", none, context(who))) for who in "ab" * 40]
        await asyncio.sleep(0.2)
        try:
            return await asyncio.wait_for(functions.call("quick", none, context("c")), 10)
        finally:
            hold.set()
            await asyncio.wait(tasks)

    assert asyncio.run(run()) == 7


@pytest.mark.parametrize("raised", [SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_function_that_wants_the_program_to_end_has_failed(raised: BaseException) -> None:
    def here() -> None:
        raise raised

    async def there() -> None:
        raise raised

    functions = Functions({"here": here, "there": there, "add": add})
    for name in ("here", "there"):
        with pytest.raises(AdapterError, match=rf"^{name} failed \({type(raised).__name__}\)$"):
            call(functions, name, {})
    assert call(functions, "add", {"a": 1}) == 3


def test_a_call_that_is_cancelled_is() -> None:
    """Other than a function in which something else was."""

    async def waits() -> None:
        await asyncio.sleep(30)

    async def run() -> None:
        task = asyncio.ensure_future(outlived(waits))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_the_loop_of_the_broker_outlives_an_exit_in_it() -> None:
    told: list[Any] = []
    line = portal._Line()
    line.loop.set_exception_handler(lambda loop, context: told.append(context["exception"]))
    thread = threading.Thread(target=line.run)
    thread.start()

    def leave() -> None:
        raise SystemExit(3)

    done = threading.Event()
    line.loop.call_soon_threadsafe(leave)
    line.loop.call_soon_threadsafe(done.set)
    assert done.wait(5)
    line.loop.call_soon_threadsafe(line.loop.stop)
    thread.join(5)
    assert [type(error) for error in told] == [SystemExit]
    assert line.loop.is_closed()
    os.close(line.bell)
