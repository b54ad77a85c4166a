"""Calls that are dropped, closed or held up between two of their steps: nothing is done twice, and nothing goes unrecorded."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_broker_calls import _until
from test_calls_here import Scene

from fastness.audit import reading
from fastness.audit.record import AuditRecord
from fastness.broker import calls as module
from fastness.broker import portal
from fastness.capability import Later


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(work: Callable[[str], Any] = lambda key: key, here: bool = True) -> Scene:
        one = Scene(tmp_path, work)
        if not here:
            one.calls.close()
            one.calls = one.run()
        made.append(one)
        return one

    yield make
    for one in made:
        one.calls.close()
        one.log.close()


@contextmanager
def loop_held() -> Iterator[None]:
    """What is wanted of the loop meanwhile waits, and then comes in its order."""
    begun, go = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go.wait(10)

    portal.soon(hold)
    assert begun.wait(10)
    try:
        yield
    finally:
        go.set()


def later(key: str) -> None:
    raise Later


def outcomes(one: Scene) -> list[AuditRecord]:
    return [row for row in reading.records(one.log.path) if row.phase == "outcome"]


def test_dropped_between_its_record_and_its_beginning(scene: Callable[..., Scene]) -> None:
    """It was announced, so how it ended is on record; it was not done, and nobody is answered."""
    one = scene(later, here=False)
    with loop_held():
        one.submit()
        one.calls.drop(1)
    _until(lambda: outcomes(one))
    (row,) = outcomes(one)
    assert (row.code, row.micros, row.bytes_in, row.bytes_out) == ("cancelled", 0, 0, 0)
    assert one.ways() == ["at once"]
    assert (one.calls.in_flight, one.calls.answers()) == ((), [])
    # Its number is free again.
    one.count = 0
    one.notes.work = lambda key: key
    assert one.ask().value == b'"k"'


def test_a_number_may_be_used_again(scene: Callable[..., Scene]) -> None:
    """After a drop of a call that there was not, and of one that was under way."""
    one = scene(here=False)
    one.calls.drop(1)
    portal.wait(asyncio.sleep(0), 10)
    assert one.ask().value == b'"k"'

    async def for_ever(*_: Any) -> None:
        await asyncio.sleep(3600)

    call, one.notes.call = one.notes.call, for_ever  # type: ignore[method-assign]  # of this scene alone
    one.submit("send")
    _until(lambda: one.calls._tasks)
    one.calls.drop(2)
    _until(lambda: not one.calls.in_flight)
    one.notes.call = call  # type: ignore[method-assign]  # as above
    one.count = 1
    assert one.ask("send").value == b'"called k"'


def test_closing_takes_no_longer_than_what_is_under_way(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it might wait."""
    monkeypatch.setattr(module, "_REST_S", 60.0)
    one = scene()

    async def for_ever(*_: Any) -> None:
        await asyncio.sleep(3600)

    one.notes.call = for_ever  # type: ignore[method-assign]  # of this scene alone
    one.submit("send")
    _until(lambda: one.calls._tasks)
    closing = threading.Thread(target=one.calls.close)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    assert [row.code for row in outcomes(one)] == ["answer_cancelled"]


def test_closed_between_its_record_and_its_beginning(scene: Callable[..., Scene]) -> None:
    """The same where the run is over by then."""
    one = scene(later)
    with loop_held():
        one.submit()
        assert one.calls.in_flight == (1,)
        closing = threading.Thread(target=one.calls.close)
        closing.start()
        _until(lambda: one.calls._closed)
    closing.join(10)
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "cancelled")]
    assert one.ways() == ["at once"]


def test_closed_before_it_was_looked_at(scene: Callable[..., Scene]) -> None:
    """It is not announced either."""
    one = scene(here=False)
    with loop_held():
        one.submit()
        closing = threading.Thread(target=one.calls.close)
        closing.start()
        _until(lambda: one.calls._closed)
    closing.join(10)
    assert (one.rows(), one.ways()) == ([], [])
    assert one.calls.in_flight == ()


def test_closing_waits_for_what_the_loop_serves(scene: Callable[..., Scene]) -> None:
    """When it has returned, nothing goes on."""
    begun, go = threading.Event(), threading.Event()
    ended: list[int] = []

    def work(key: str) -> None:
        begun.set()
        go.wait(10)
        ended.append(1)

    one = scene(work, here=False)
    one.submit()
    assert begun.wait(10)
    threading.Timer(0.05, go.set).start()
    one.calls.close()
    assert ended == [1]
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]


def test_closing_records_what_is_owed_though_the_trail_is_held(scene: Callable[..., Scene]) -> None:
    """It waits for its turn: when it has returned, all is there."""
    one = scene()
    one.submit()
    one.log._turn.acquire()
    threading.Timer(0.2, one.log._turn.release).start()
    one.calls.close()
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]


def test_what_was_served_while_somebody_closed_is_recorded(scene: Callable[..., Scene]) -> None:
    """By whoever served it, though the trail is held: whoever closed looked for what is owed before."""

    def work(key: str) -> None:
        closing.start()
        _until(lambda: one.calls._closed)
        one.log._turn.acquire()
        threading.Timer(0.2, one.log._turn.release).start()

    one = scene(work)
    closing = threading.Thread(target=one.calls.close)
    one.submit()
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]
    closing.join(10)


def test_the_thread_that_submits_waits_for_no_outcome(scene: Callable[..., Scene]) -> None:
    """One that is owed from before goes to the loop with the new call, where the trail is held."""
    one = scene()
    one.submit()
    one.log._turn.acquire()
    free = threading.Timer(10, one.log._turn.release)
    free.start()
    one.submit()
    assert one.rows() == [("get", "intent", "")]
    assert one.calls.in_flight == (2,)
    free.cancel()
    one.log._turn.release()
    found: list[Any] = []
    while len(found) < 2 and select.select([one.calls], [], [], 10)[0]:
        found += one.calls.answers()
    assert [answer.id for answer in found] == [1, 2]
    one.calls.close()
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")] * 2


def test_how_long_a_call_took_that_was_served_at_once(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In microseconds, from its record on."""
    one = scene()
    clock = iter((10**9, 10**9 + 10**15))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=time.monotonic, monotonic_ns=lambda: next(clock)))
    one.submit()
    monkeypatch.undo()
    one.calls.close()
    assert [row.micros for row in outcomes(one)] == [10**12]
