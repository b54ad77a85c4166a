"""Calls whose grant ends while they are under way, and calls that lead on to other targets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_broker_calls import SPEC, NoteScope, Scene

from fastness.broker import portal
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.capability import CallContext
from fastness.limits import Limits


@pytest.fixture
def scene() -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(work: Callable[[str, Any, CallContext], Any] = lambda *_: None, **options: Any) -> Scene:
        made.append(Scene(work, **options))
        return made[-1]

    yield make
    for one in made:
        one.calls.close()


async def _for_ever() -> None:
    await asyncio.sleep(3600)


def test_a_grant_that_ends_elsewhere_ends_what_is_under_way(scene: Callable[..., Scene]) -> None:
    """Nobody tells this process: it looks by itself, and its guest gets an answer."""
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        await _for_ever()

    one = scene(lambda *_: work())
    one.submit("notes", "put", {"key": "a"})
    assert begun.wait(10)
    one.revision = 2
    assert one.answer().code == "revoked"
    assert one.paper.rows[-1][:3] == ("outcome", 1, "answer_revoked")
    assert [(row.code.value, row.target) for row in one.calls.denials()[0]] == [("revoked", "a")]
    assert one.adapter.done == []


def test_a_grant_that_expires_ends_what_is_under_way(scene: Callable[..., Scene]) -> None:
    """As the clock says, without anybody's doing."""
    one = scene(lambda *_: _for_ever(), expires=2e9)
    clock = [1e9]
    one.calls._gate._clock = lambda: clock[0]
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        await _for_ever()

    one.adapter.work = lambda *_: work()
    one.submit("notes", "put", {"key": "a"})
    assert begun.wait(10)
    clock[0] = 3e9
    assert one.answer().code == "expired"


def test_a_grant_that_stands_ends_nothing(scene: Callable[..., Scene]) -> None:
    """Many looks, and the call goes on to its end."""

    async def work() -> str:
        await asyncio.sleep(0.3)
        return "done"

    one = scene(lambda *_: work())
    assert one.ask("notes", "put", {"key": "a"}).code == ""


def test_nobody_looks_while_nothing_is_under_way(scene: Callable[..., Scene]) -> None:
    """A run that waits for its guest wakes nobody; what is called then is judged all the same."""
    one = scene()
    assert one.ask("notes", "put", {"key": "a"}).code == ""
    looks: list[int] = []
    one.calls._gate._revision = lambda: looks.append(1) or 1
    portal.wait(asyncio.sleep(0.2), 10)
    assert looks == []
    assert one.ask("notes", "put", {"key": "b"}).code == ""
    assert looks


def test_calls_that_had_not_begun_are_answered_too(scene: Callable[..., Scene]) -> None:
    """Handed over, and revoked before the loop came to them: each has its answer and its record."""
    one = scene(lambda *_: _for_ever())
    held = threading.Event()
    portal.soon(held.wait, 10)
    for number in range(5):
        one.submit("notes", "put", {"key": str(number)})
    one.calls.revoke()
    held.set()
    answers: list[Any] = []
    while len(answers) < 5:
        portal.wait(asyncio.sleep(0.01), 5)
        answers += one.calls.answers()
    assert {answer.code for answer in answers} == {"revoked"}
    assert (
        [row[0] for row in one.paper.rows].count("intent") == [row[0] for row in one.paper.rows].count("outcome") == 5
    )


def test_a_grant_that_ends_between_the_record_and_the_effect(scene: Callable[..., Scene]) -> None:
    """Whoever revoked then has seen no record, so there may be no effect; the record has its outcome."""
    one = scene()
    intend = one.paper.intend

    def revoked_meanwhile(intent: Any) -> int:
        number = intend(intent)
        one.revision = 2
        return number

    one.paper.intend = revoked_meanwhile  # type: ignore[method-assign]  # the trail of this scene alone
    assert one.ask("notes", "put", {"key": "a"}).code == "revoked"
    assert one.adapter.done == []
    assert [row[:3] for row in one.paper.rows] == [("intent", "put", "a"), ("outcome", 1, "revoked")]


def test_a_grant_that_ends_between_the_record_of_a_hop_and_the_hop(scene: Callable[..., Scene]) -> None:
    """The same of where a call leads on."""
    went: list[str] = []

    def work(operation: str, given: Any, context: CallContext) -> Any:
        assert context.before is not None
        one.paper.intend = revoked_meanwhile  # type: ignore[method-assign]  # from here on
        context.before("b")
        went.append("b")

    one = scene(work)
    intend = one.paper.intend

    def revoked_meanwhile(intent: Any) -> int:
        number = intend(intent)
        one.revision = 2
        return number

    assert one.ask("notes", "send", {"key": "a"}).code == "revoked"
    assert went == []
    assert [row[:2] for row in one.paper.rows] == [
        ("intent", "send"),
        ("intent", "send"),
        ("outcome", 1),
        ("outcome", 2),
    ]


def _leading_on(*targets: str) -> Callable[[str, Any, CallContext], Any]:
    def work(operation: str, given: Any, context: CallContext) -> Any:
        assert context.before is not None
        context.bytes_in = 7
        for target in targets:
            context.before(target)
        return "there"

    return work


def test_where_a_call_leads_on_is_recorded_before(scene: Callable[..., Scene]) -> None:
    """Each further target has an intent of its own, as much on disk as the call's, and an outcome."""
    one = scene(_leading_on("b", "c"))
    assert one.ask("notes", "send", {"key": "a"}).code == ""
    assert one.paper.rows == [
        ("intent", "send", "a", True), ("intent", "send", "b", True), ("intent", "send", "c", True),
        # What went to and fro is counted once.
        ("outcome", 1, "", 7, 0), ("outcome", 2, "", 0, 0), ("outcome", 3, "", 0, 0),
    ]  # fmt: skip


def test_a_call_leads_on_no_further_than_its_grant(scene: Callable[..., Scene]) -> None:
    """Revoked between two hops, it stops at the first."""

    def work(operation: str, given: Any, context: CallContext) -> Any:
        assert context.before is not None
        one.revision = 2
        context.before("b")

    one = scene(work)
    assert one.ask("notes", "send", {"key": "a"}).code == "revoked"
    assert [row[:3] for row in one.paper.rows] == [("intent", "send", "a"), ("outcome", 1, "revoked")]


def test_a_call_leads_on_no_further_than_it_is_recorded(scene: Callable[..., Scene]) -> None:
    """A hop that cannot be written down is not made."""
    went: list[str] = []

    def work(operation: str, given: Any, context: CallContext) -> Any:
        assert context.before is not None
        one.paper.broken = True
        context.before("b")
        went.append("b")

    one = scene(work)
    answer = one.ask("notes", "send", {"key": "a"})
    assert (answer.code, went) == ("failed", [])
    assert "disk" not in answer.message


def test_limits_and_time_of_a_call(scene: Callable[..., Scene]) -> None:
    """An adapter sees the policy's limits; without a deadline calls last from the first one on."""
    seen: list[CallContext] = []
    limits = Limits(net_requests=3)
    one = scene(lambda _o, _a, context: seen.append(context), deadline=None, seconds=5.0, limits=limits)
    one.ask("notes", "put", {"key": "a"})
    one.ask("notes", "put", {"key": "b"})
    assert [context.limits for context in seen] == [limits, limits]
    assert seen[0].deadline == seen[1].deadline


def test_operations_that_are_not_offered_are_absent() -> None:
    """Of a kind, only what the policy has of it: the rest can be neither seen nor called."""
    gate = Gate({"notes": NoteScope()}, {"notes": SPEC}, {"notes": object()}, offered={"notes": ("put",)})  # type: ignore[dict-item]  # any adapter will do
    calls = RunCalls(gate, object(), run="r", plugin="p", owner="o", calls=1, value_bytes=1)  # type: ignore[arg-type]  # no call is made
    assert [one.operation for one in calls.granted] == ["put"]
    assert gate.decide("notes", "send").code.value == "unsupported"  # type: ignore[union-attr]  # it is a refusal
    calls.close()
