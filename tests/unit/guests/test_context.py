"""The ctx of a Python guest, in this interpreter, with a host that the test plays."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

import house
from fastness.wire import values

GRANTED = [
    {"capability": "storage", "operation": "get", "parameters": [["key", False]], "summary": "A value."},
    {"capability": "storage", "operation": "put", "parameters": [["key", False], ["value", True]]},
    {"capability": "ctx", "operation": "lookup", "parameters": [["name", False]]},
    {"capability": "host", "operation": "add", "parameters": [["a", False], ["b", True]], "signature": "(a: int)"},
]


@pytest.fixture
def context() -> Iterator[Any]:
    folder = house.SOURCE / "fastness" / "guest"
    made = {}
    before = {name: sys.modules.get(name) for name in ("_fastness_encode", "_fastness_context")}
    for name, file in (("_fastness_encode", "encode.py"), ("_fastness_context", "context.py")):
        made[name] = sys.modules[name] = types.ModuleType(name)
        exec(compile((folder / file).read_text(), f"<{name}>", "exec"), made[name].__dict__)
    yield made["_fastness_context"]
    for name, module in before.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module


class Host:
    """Answers each call with what the test says, in the order of ``order`` where there is one."""

    def __init__(self, answer: Any = None) -> None:
        self.sent: list[tuple[int, dict[str, Any], bytes]] = []
        self.answer = answer or (lambda call, arguments: arguments)
        self.ready: list[tuple[int, dict[str, Any], bytes]] = []
        self.bell = threading.Semaphore(0)
        self.readable = -1

    def send(self, kind: int, text: bytes, blob: bytes) -> None:
        head = json.loads(text)
        self.sent.append((kind, head, blob))
        if kind != 0x43:
            return
        result = self.answer(head, values.decode(blob))
        if isinstance(result, str) and result.startswith("!"):
            self.ready.append((5, {"id": head["id"], "code": result[1:], "message": "why"}, b""))
        elif result is not ...:
            self.ready.append((4, {"id": head["id"]}, values.encode(result)))
        self.bell.release()

    def receive(self) -> list[tuple[int, dict[str, Any], bytes]]:
        self.bell.acquire()
        return [self.ready.pop()]

    def fileno(self) -> int:
        raise NotImplementedError


def made(context: Any, host: Host) -> Any:
    return context.make(GRANTED, context.Calls(host))


def test_what_is_not_granted_is_absent(context: Any) -> None:
    ctx = made(context, Host())
    assert getattr(ctx, "fs", None) is None
    assert not hasattr(ctx.storage, "delete")
    assert sorted(vars(ctx)) == ["host", "log", "lookup", "storage"]


def test_calls_carry_their_arguments_by_name(context: Any) -> None:
    host = Host()
    ctx = made(context, host)
    assert ctx.storage.put("k", b"v") == {"key": "k", "value": b"v"}
    assert ctx.storage.put(value=1, key="k") == {"key": "k", "value": 1}
    assert ctx.lookup("x") == {"name": "x"}
    assert [(head["capability"], head["operation"], head["id"]) for _, head, _ in host.sent] == [
        ("storage", "put", 1),
        ("storage", "put", 2),
        ("ctx", "lookup", 3),
    ]


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -(2**70), 1.5, float("inf"), "a\ud800", b"\x00\xff", [1, [2]], {"a": {"$": 1}}, {"k\udc00": 1}],
)
def test_plain_data_comes_back_as_it_was(context: Any, value: Any) -> None:
    ctx = made(context, Host(lambda head, arguments: arguments["value"]))
    assert ctx.storage.put("k", value) == value


def test_tuples_become_lists(context: Any) -> None:
    assert made(context, Host(lambda head, arguments: arguments["value"])).storage.put("k", (1, (2,))) == [1, [2]]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (print, "value is of type builtin_function_or_method"),
        ({"rows": [1, {"fn": lambda: 1}]}, "value.rows[1].fn is of type function"),
        ({"a": {1: 2}}, "value.a is a dict with a key of type int"),
        ([object()], "value[0] is of type object"),
        (type("S", (str,), {})("x"), "value is of type S"),
    ],
)
def test_what_is_no_plain_data_is_named_by_its_place(context: Any, value: Any, place: str) -> None:
    host = Host()
    with pytest.raises(TypeError) as caught:
        made(context, host).storage.put("k", value)
    assert str(caught.value).startswith(place)
    assert host.sent == []


def test_data_that_contains_itself(context: Any) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="nested too deep"):
        made(context, Host()).storage.put("k", loop)


def test_a_refusal_is_an_exception_with_a_code(context: Any) -> None:
    ctx = made(context, Host(lambda *_: "!quota"))
    with pytest.raises(ctx.Refused, match=r"^storage\.get: quota: why$") as caught:
        ctx.storage.get("k")
    assert (caught.value.code, caught.value.message) == ("quota", "why")


@pytest.mark.parametrize(
    ("values", "named"), [(("a", "b", "c"), {}), ((), {}), (("a",), {"key": "b"}), (("a",), {"other": 1})]
)
def test_wrong_arguments_are_told_at_once(context: Any, values: Any, named: Any) -> None:
    host = Host()
    with pytest.raises(TypeError, match=r"storage\.put\(\)"):
        made(context, host).storage.put(*values, **named)
    assert host.sent == []


class Both(Host):
    """Answers the first two calls in one breath, and not before the second was made."""

    def receive(self) -> list[tuple[int, dict[str, Any], bytes]]:
        self.bell.acquire()
        self.bell.acquire()
        return [self.ready.pop(), self.ready.pop()]

    def fileno(self) -> int:
        return self.readable


def test_answers_of_one_breath_reach_a_thread_and_a_loop(context: Any) -> None:
    """The thread reads both, and the descriptor has nothing to tell the loop any more."""
    host = Both(lambda head, arguments: arguments["key"])
    host.readable, other = os.pipe()
    ctx = made(context, host)
    begun = threading.Event()
    found: list[Any] = []

    def wait() -> None:
        begun.wait(5)
        found.append(ctx.storage.get("thread"))

    async def main() -> Any:
        pending = ctx.storage.get("loop")
        task = asyncio.ensure_future(_result(pending))
        await asyncio.sleep(0)
        begun.set()
        return await asyncio.wait_for(task, 5)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        assert asyncio.run(main()) == "loop"
        thread.join(5)
        assert found == ["thread"]
    finally:
        os.close(host.readable)
        os.close(other)


async def _result(pending: Any) -> Any:
    return await pending


def test_functions_have_their_documentation(context: Any) -> None:
    calls = context.Calls(Host())
    found = context.functions(GRANTED, calls, "host")
    assert list(found) == ["add"]
    assert (found["add"].__name__, str(inspect.signature(found["add"]))) == ("add", "(a: 'int')")
    storage = context.functions(GRANTED, calls, "storage")
    assert storage["get"].__doc__ == "A value."
    assert found["add"](1, b=2) == {"a": 1, "b": 2}


def test_in_an_event_loop_calls_are_awaited(context: Any) -> None:
    ctx = made(context, Host(lambda head, arguments: arguments["key"]))

    async def main() -> list[Any]:
        first, second = ctx.storage.get("a"), ctx.storage.get("b")
        return [await second, await first, *await asyncio.gather(*(one(ctx, n) for n in "cde"))]

    async def one(ctx: Any, key: str) -> Any:
        return await ctx.storage.get(key)

    assert asyncio.run(main()) == ["b", "a", "c", "d", "e"]


def test_many_threads_get_their_own_answers(context: Any) -> None:
    ctx = made(context, Host(lambda head, arguments: arguments["key"]))
    found: list[tuple[str, Any]] = []

    def ask(name: str) -> None:
        found.extend((key, ctx.storage.get(key)) for key in (f"{name}{number}" for number in range(50)))

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 200
    assert all(asked == got for asked, got in found)


def test_a_wait_that_is_broken_off_says_so(context: Any) -> None:
    host = Host(lambda *_: ...)
    ctx = made(context, host)
    receive = host.receive

    def interrupted() -> Any:
        raise KeyboardInterrupt

    host.receive = interrupted  # type: ignore[method-assign]  # what a signal does
    with pytest.raises(KeyboardInterrupt):
        ctx.storage.get("k")
    assert [(kind, head["id"]) for kind, head, _ in host.sent] == [(0x43, 1), (0x44, 1)]
    # An answer that crosses with that is nobody's.
    host.receive = receive  # type: ignore[method-assign]  # as above
    host.answer = lambda head, arguments: arguments["key"]
    host.ready.append((4, {"id": 1}, values.encode("late")))
    assert ctx.storage.get("next") == "next"


def test_lines_of_the_log(context: Any) -> None:
    host = Host()
    ctx = made(context, host)
    ctx.log("info", "x" * 5000)
    assert host.sent == [(0x45, {"level": "info", "text": "x" * 4096}, b"")]
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        ctx.log("loud", "x")
