"""Brokered calls of one run: decided, recorded, done, recorded and answered, in this order."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from fastness.broker.calls import RunCalls
from fastness.broker.gate import Allowed, Gate, Refused
from fastness.broker.trail import Intent
from fastness.brokered import Answer, TooManyCalls
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.errors import AdapterError, BackendError, Denied, QuotaExceeded
from fastness.runs import DenialCode
from fastness.wire import values


class NoteScope(Scope, frozen=True, tag="notes"):
    limit: int = 0


class Put(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    value: bytes = b""


SPEC = Spec(
    kind="notes",
    scope=NoteScope,
    operations=(
        Operation(name="put", arguments=Put, target=lambda given: given.key, summary="Keep a value."),
        Operation(name="send", arguments=Put, target=lambda given: given.key, summary="Send it.", leaves=True),
    ),
    meet=lambda asked, allowed: asked,
    exceeds=lambda asked, allowed: [],
    risk=lambda scope: "",
    enforced=(),
)


class Notes:
    """An adapter whose work is what the test says."""

    spec = SPEC

    def __init__(self, work: Callable[[str, Any, CallContext], Any]) -> None:
        self.work = work
        self.done: list[str] = []

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        result = self.work(operation, arguments, context)
        if asyncio.iscoroutine(result):
            result = await result
        self.done.append(arguments.key)
        return result

    async def aclose(self) -> None:
        pass


class Paper:
    """A trail in memory, in the order of writing."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.broken = False

    def intend(self, intent: Intent) -> int:
        if self.broken:
            raise BackendError("writing the audit trail", "the disk is full")
        self.rows.append(("intent", intent.operation, intent.target, intent.leaves))
        return len(self.rows)

    def done(
        self, number: int, intent: Intent, *, code: str, micros: int, bytes_in: int, bytes_out: int, cost: int = 0
    ) -> None:
        self.rows.append(("outcome", number, code, bytes_in, bytes_out))

    def refused(self, intent: Intent, *, code: str) -> None:
        self.rows.append(("refused", intent.capability, intent.operation, code))


class Scene:
    def __init__(self, work: Callable[[str, Any, CallContext], Any], **options: Any) -> None:
        self.adapter = Notes(work)
        self.paper = Paper()
        self.revision = 1
        gate = Gate(
            options.pop("scopes", {"notes": NoteScope()}),
            {"notes": SPEC},
            options.pop("adapters", {"notes": self.adapter}),
            made_at=1,
            revision=lambda: self.revision,
            expires=options.pop("expires", None),
        )
        fixed = {"run": "r", "plugin": "p", "owner": "o", "calls": 100, "value_bytes": 1000}
        self.calls = RunCalls(gate, self.paper, **{**fixed, "deadline": time.monotonic() + 10, **options})
        self.count = 0

    def submit(self, capability: str, operation: str, value: Any) -> int:
        self.count += 1
        data = value if isinstance(value, bytes) else values.encode(value)
        self.calls.submit(self.count, capability, operation, data)
        return self.count

    def answer(self, seconds: float = 5.0) -> Answer:
        if not select.select([self.calls], [], [], seconds)[0]:
            raise AssertionError("no answer")
        (found,) = self.calls.answers()
        return found

    def ask(self, capability: str, operation: str, value: Any) -> Answer:
        self.submit(capability, operation, value)
        return self.answer()


@pytest.fixture
def scene() -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(work: Callable[[str, Any, CallContext], Any] = lambda *_: None, **options: Any) -> Scene:
        made.append(Scene(work, **options))
        return made[-1]

    yield make
    for one in made:
        one.calls.close()


@pytest.mark.parametrize("given", [{"\ud800": 1}, {"key": "a", "\udfff\ud800": b""}])
def test_a_name_that_is_no_text_is_answered(given: dict[str, Any], scene: Callable[..., Scene]) -> None:
    """Half of a surrogate pair in the place of a name is an argument that there is not, and no fault of the host."""
    one = scene()
    answer = one.ask("notes", "put", given)
    assert answer.code == "invalid"
    assert one.paper.rows == [("refused", "notes", "put", "invalid")]
    assert one.ask("notes", "put", {"key": "a"}).code == ""


def test_a_call_is_recorded_before_it_is_done_and_after(scene: Callable[..., Scene]) -> None:
    seen: list[int] = []

    def work(operation: str, given: Put, context: CallContext) -> Any:
        seen.append(len(one.paper.rows))
        context.bytes_in, context.bytes_out = 3, len(given.value)
        return {"kept": given.value}

    one = scene(work)
    answer = one.ask("notes", "put", {"key": "a", "value": b"xy"})
    assert (answer.code, values.decode(answer.value)) == ("", {"kept": b"xy"})
    assert seen == [1]
    assert one.paper.rows == [("intent", "put", "a", False), ("outcome", 1, "", 3, 2)]
    assert one.calls.denials() == ((), 0)


def test_what_leaves_the_machine_says_so_beforehand(scene: Callable[..., Scene]) -> None:
    one = scene()
    one.ask("notes", "send", {"key": "a"})
    assert one.paper.rows[0] == ("intent", "send", "a", True)


@pytest.mark.parametrize(
    ("capability", "operation", "code"),
    [("fs", "read", "not_granted"), ("notes", "drop", "unsupported"), ("notes", "__class__", "unsupported")],
)
def test_what_is_not_granted_is_refused_and_recorded(
    scene: Callable[..., Scene], capability: str, operation: str, code: str
) -> None:
    one = scene()
    assert one.ask(capability, operation, {"key": "a"}).code == code
    assert one.adapter.done == []
    assert one.paper.rows == [("refused", capability, operation, code)]
    rows, dropped = one.calls.denials()
    assert [(row.capability, row.code.value, row.layer, row.claimed) for row in rows] == [
        (capability, code, "broker", False)
    ]
    assert dropped == 0


def test_without_an_adapter_nothing_is_allowed(scene: Callable[..., Scene]) -> None:
    one = scene(adapters={})
    assert one.ask("notes", "put", {"key": "a"}).code == "no_adapter"
    assert one.calls.granted == ()


def test_no_scope_allows_nothing(scene: Callable[..., Scene]) -> None:
    one = scene(scopes={})
    assert one.calls.granted == ()
    assert one.ask("notes", "put", {"key": "a"}).code == "not_granted"


def test_a_revocation_bites_on_the_next_call(scene: Callable[..., Scene]) -> None:
    one = scene()
    assert one.ask("notes", "put", {"key": "a"}).code == ""
    one.revision = 2
    assert one.ask("notes", "put", {"key": "b"}).code == "revoked"
    assert one.adapter.done == ["a"]


def test_a_grant_that_expires_during_a_run(scene: Callable[..., Scene]) -> None:
    one = scene(expires=time.time() - 1)
    assert one.ask("notes", "put", {"key": "a"}).code == "expired"
    assert one.adapter.done == []


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"key": 1}, {"key": "a", "more": 1}, [], "a", None, {"key": None}, {"key": "a", "value": "text"},
        b"{", b"\xff", b'{"key": "a", "key": 1}', b"[" * 1000 + b"]" * 1000, b'{"$": ["nothing", "x"]}', b"NaN",
    ],
)  # fmt: skip
def test_arguments_of_another_shape_do_nothing(scene: Callable[..., Scene], arguments: Any) -> None:
    one = scene()
    answer = one.ask("notes", "put", arguments)
    assert answer.code == "invalid"
    assert one.adapter.done == []
    assert [row[0] for row in one.paper.rows] == ["refused"]


def test_what_cannot_be_recorded_does_not_happen(scene: Callable[..., Scene]) -> None:
    one = scene()
    one.paper.broken = True
    answer = one.ask("notes", "put", {"key": "a"})
    assert answer.code == "failed"
    assert "nothing was done" in answer.message
    assert one.adapter.done == []


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Denied(DenialCode.OUTSIDE, "a"), "outside", "a"),
        # Nobody has dropped the call, whatever its adapter calls it.
        (Denied(DenialCode.CANCELLED, "a"), "cancelled", "a"),
        (QuotaExceeded("3 keys at most"), "quota", "3 keys at most"),
        (AdapterError("it did not answer"), "failed", "it did not answer"),
        (OSError(2, "No such file", "/home/secret/place"), "failed", "the capability failed (FileNotFoundError)"),
    ],
)
def test_what_an_adapter_raises_crosses_as_data(
    scene: Callable[..., Scene], error: Exception, code: str, text: str
) -> None:
    def work(*_: Any) -> None:
        raise error

    one = scene(work)
    answer = one.ask("notes", "put", {"key": "a"})
    assert (answer.code, answer.message) == (code, text)
    assert one.paper.rows[-1][:3] == ("outcome", 1, code)


@pytest.mark.parametrize("value", [b"x" * 2000, object(), {"a": {1: 2}}])
def test_an_answer_that_is_too_large_or_not_plain(scene: Callable[..., Scene], value: object) -> None:
    one = scene(lambda *_: value)
    answer = one.ask("notes", "put", {"key": "a"})
    assert (answer.code, answer.value) == ("failed", b"")


def test_more_calls_than_a_run_may(scene: Callable[..., Scene]) -> None:
    one = scene(calls=2)
    one.ask("notes", "put", {"key": "a"})
    one.ask("notes", "put", {"key": "b"})
    with pytest.raises(TooManyCalls):
        one.submit("notes", "put", {"key": "c"})
    assert one.adapter.done == ["a", "b"]


async def _for_ever() -> None:
    await asyncio.sleep(60)


def test_a_call_in_flight_is_cancelled_when_its_grant_is_revoked(scene: Callable[..., Scene]) -> None:
    one = scene(lambda *_: _for_ever())
    one.submit("notes", "put", {"key": "a"})
    _until(lambda: bool(one.paper.rows))
    assert one.calls.in_flight == (1,)
    one.revision = 2
    one.calls.revoke()
    assert one.answer().code == "revoked"
    assert one.adapter.done == []
    assert one.paper.rows[-1][:3] == ("outcome", 1, "answer_revoked")
    assert [(row.code.value, row.layer) for row in one.calls.denials()[0]] == [("revoked", "answer")]


def test_a_dropped_call_is_cancelled_and_not_answered(scene: Callable[..., Scene]) -> None:
    one = scene(lambda *_: _for_ever())
    one.submit("notes", "put", {"key": "a"})
    one.calls.drop(1)
    _until(lambda: not one.calls.in_flight)
    assert one.calls.answers() == []
    assert one.adapter.done == []
    # It is no refusal: its guest wanted it so.
    assert one.calls.denials() == ((), 0)


def test_nothing_goes_on_after_the_run(scene: Callable[..., Scene]) -> None:
    ends: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("cancelled")

    one = scene(lambda *_: slow())
    one.submit("notes", "put", {"key": "a"})
    _until(lambda: bool(one.paper.rows))
    one.calls.close()
    one.calls.close()
    assert ends == ["cancelled"]
    assert one.paper.rows[-1][:3] == ("outcome", 1, "answer_cancelled")
    one.calls.submit(2, "notes", "put", values.encode({"key": "b"}))
    assert one.adapter.done == []


def test_the_time_of_a_run_bounds_its_calls(scene: Callable[..., Scene]) -> None:
    one = scene(lambda *_: _for_ever(), deadline=time.monotonic() + 0.05)
    answer = one.ask("notes", "put", {"key": "a"})
    assert (answer.code, answer.message) == ("failed", "the run's time is over")


def test_calls_are_answered_while_others_wait(scene: Callable[..., Scene]) -> None:
    one = scene(lambda operation, given, context: _for_ever() if given.key == "slow" else given.key)
    one.submit("notes", "put", {"key": "slow"})
    answer = one.ask("notes", "put", {"key": "fast"})
    assert (answer.id, values.decode(answer.value)) == (2, "fast")


def test_equal_refusals_are_one_row_and_the_rest_is_counted(scene: Callable[..., Scene]) -> None:
    one = scene(calls=200)
    for number in range(80):
        one.ask("notes", f"no{number % 70}", {})
    rows, dropped = one.calls.denials()
    assert len(rows) == 64
    assert sum(row.count for row in rows) + dropped == 80


def test_many_threads_make_calls(scene: Callable[..., Scene]) -> None:
    one = scene(calls=1000)
    threads = [
        threading.Thread(
            target=lambda first: [
                one.calls.submit(n, "notes", "put", values.encode({"key": str(n)})) for n in range(first, first + 50)
            ],
            args=(number * 50,),
        )
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got: list[int] = []
    _until(lambda: got.extend(a.id for a in one.calls.answers()) or len(got) == 200)
    assert sorted(got) == list(range(200))


def test_a_decision_is_for_now() -> None:
    now = [100.0]
    gate = Gate({"notes": NoteScope()}, {"notes": SPEC}, {"notes": Notes(print)}, expires=100.5, clock=lambda: now[0])
    assert isinstance(gate.decide("notes", "put"), Allowed)
    now[0] = 101.0
    assert gate.decide("notes", "put") == Refused(DenialCode.EXPIRED)


def _until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_what_does_not_come_to_rest_keeps_nobody(scene: Callable[..., Scene]) -> None:
    """A run is over though its call takes no notice of being cancelled; when that ends, it is recorded."""
    let, began = threading.Event(), threading.Event()

    async def stubborn() -> None:
        began.set()
        ends = time.monotonic() + 4.5
        while not let.is_set() and time.monotonic() < ends:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    made = scene(lambda *_: stubborn())
    made.submit("notes", "put", {"key": "a"})
    assert began.wait(5)
    made.calls.close()
    assert made.adapter.done == [] and [row[0] for row in made.paper.rows] == ["intent"]
    let.set()
    ends = time.monotonic() + 5
    while len(made.paper.rows) < 2 and time.monotonic() < ends:
        time.sleep(0.01)
    assert made.adapter.done == ["a"] and [row[0] for row in made.paper.rows] == ["intent", "outcome"]
