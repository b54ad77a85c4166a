"""Calls that are served on the thread that brings them: recorded before and after like any other, or left to the loop."""

from __future__ import annotations

import os
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.audit.record import KILLED
from fastness.audit.verify import verify
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.brokered import Answer
from fastness.capabilities.storage import Storage, StorageScope
from fastness.capability import CallContext, Later, Operation, Scope, Spec
from fastness.errors import AdapterError, Denied
from fastness.runs import DenialCode
from fastness.wire import values


class NoteScope(Scope, frozen=True, tag="notes"):
    pass


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str


SPEC = Spec(
    kind="notes",
    scope=NoteScope,
    operations=(
        Operation(name="get", arguments=Note, target=lambda given: given.key, summary="Read."),
        Operation(name="send", arguments=Note, target=lambda given: given.key, summary="Send.", leaves=True),
    ),
    meet=lambda asked, allowed: asked,
    exceeds=lambda asked, allowed: [],
    risk=lambda scope: "",
    enforced=(),
)


class Notes:
    """An adapter that does the work of the test at once, and notes which way and on which thread it was asked."""

    spec = SPEC

    def __init__(self, work: Callable[[str], Any]) -> None:
        self.work = work
        self.asked: list[tuple[str, str]] = []

    def at_once(self, operation: str, arguments: Any, context: CallContext) -> Any:
        self.asked.append(("at once", threading.current_thread().name))
        context.bytes_in = 3
        return self.work(arguments.key)

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        self.asked.append(("call", threading.current_thread().name))
        return f"called {arguments.key}"

    async def aclose(self) -> None:
        pass


class Scene:
    def __init__(self, base: Path, work: Callable[[str], Any]) -> None:
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"), patience_s=0.3)
        # The first record of a process opens the trail, which is never done at once.
        self.log.event(op="begin")
        self.notes = Notes(work)
        self.revision = 1
        self.count = 0
        self.calls = self.run(here=True)

    def run(self, **options: Any) -> RunCalls:
        gate = Gate(
            {"notes": NoteScope()}, {"notes": SPEC}, {"notes": self.notes}, made_at=1, revision=lambda: self.revision
        )
        fixed: dict[str, Any] = {"run": "r", "plugin": "p", "owner": "o", "calls": 100, "value_bytes": 1000}
        return RunCalls(gate, self.log, **{**fixed, **options})

    def submit(self, operation: str = "get", key: Any = "k") -> None:
        self.count += 1
        self.calls.submit(self.count, "notes", operation, values.encode({"key": key}))

    def answer(self) -> Answer:
        found: list[Answer] = []
        # It also rings for what is still to be recorded.
        while not found and select.select([self.calls], [], [], 10)[0]:
            found = self.calls.answers()
        (answer,) = found
        return answer

    def ask(self, operation: str = "get", key: Any = "k") -> Answer:
        self.submit(operation, key)
        return self.answer()

    def rows(self) -> list[tuple[str, str, str]]:
        return [(row.op, row.phase, row.code) for row in reading.records(self.log.path) if row.op != "begin"]

    def ways(self) -> list[str]:
        return [way for way, _ in self.notes.asked]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(work: Callable[[str], Any] = lambda key: key) -> Scene:
        made.append(Scene(tmp_path, work))
        return made[-1]

    yield make
    for one in made:
        one.calls.close()
        one.log.close()


def test_it_is_recorded_before_it_is_done(scene: Callable[..., Scene]) -> None:
    """The intent is committed when the adapter is asked, on this very thread; the outcome follows the answer."""
    seen: list[Any] = []

    def work(key: str) -> str:
        with sqlite3.connect(one.log.path) as other:
            seen.extend(other.execute("SELECT op, phase FROM trail WHERE run='r'"))
        return key.upper()

    one = scene(work)
    assert one.ask().value == b'"K"'
    assert seen == [("get", "intent")]
    assert one.notes.asked == [("at once", threading.current_thread().name)]
    assert one.calls.in_flight == ()
    assert one.rows() == [("get", "intent", "")]
    # The bell still rings, so that whoever has given the answer on comes back.
    assert select.select([one.calls], [], [], 0)[0]
    assert one.calls.answers() == []
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]
    assert not select.select([one.calls], [], [], 0)[0]
    assert [row.bytes_in for row in reading.records(one.log.path)][-1] == 3
    assert verify(one.log.path, one.log.key).whole


def test_an_answer_that_is_there_at_once_is_given_at_once(scene: Callable[..., Scene]) -> None:
    """It does not come a second time, and rings nothing; its outcome is recorded when answers are asked for."""
    one = scene()
    answer = one.calls.ask(1, "notes", "get", values.encode({"key": "k"}))
    assert answer is not None and (answer.id, answer.value) == (1, b'"k"')
    assert one.rows() == [("get", "intent", "")]
    assert not select.select([one.calls], [], [], 0)[0]
    assert one.calls.answers() == []
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]


def test_an_answer_that_is_not_there_at_once_comes_with_the_bell(scene: Callable[..., Scene]) -> None:
    """Refusals too: they are recorded where one may wait."""
    one = scene()
    one.revision = 2
    assert one.calls.ask(1, "notes", "get", values.encode({"key": "k"})) is None
    answer = one.answer()
    assert (answer.id, answer.code) == (1, "revoked")
    # Nothing is owed, so nobody is called back for more.
    assert not select.select([one.calls], [], [], 0)[0]


def test_the_outcome_is_there_before_the_next_intent_and_at_the_end(scene: Callable[..., Scene]) -> None:
    """Whoever never asks again for answers has it recorded all the same."""
    one = scene()
    one.submit()
    one.submit()
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", ""), ("get", "intent", "")]
    one.calls.close()
    assert one.rows()[-1] == ("get", "outcome", "")
    assert one.ways() == ["at once"] * 2


def test_what_would_wait_is_done_in_the_loop(scene: Callable[..., Scene]) -> None:
    """Announced once, and done the other way."""

    def work(key: str) -> None:
        raise Later

    one = scene(work)
    assert one.ask().value == b'"called k"'
    assert one.ways() == ["at once", "call"]
    assert one.notes.asked[1][1] == "fastness-broker"
    one.calls.close()
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]


def test_what_leaves_is_never_done_here(scene: Callable[..., Scene]) -> None:
    """Its record is synced first, which may take long."""
    one = scene()
    assert one.ask("send").value == b'"called k"'
    assert one.ways() == ["call"]


@pytest.mark.parametrize("told", [{"here": False}, {}])
def test_without_being_told_nothing_is_done_here(scene: Callable[..., Scene], told: dict[str, bool]) -> None:
    """The control: where the thread is not the run's own, the loop serves."""
    one = scene()
    one.calls.close()
    one.calls = one.run(**told)
    assert one.ask().value == b'"k"'
    assert one.notes.asked == [("at once", "fastness-broker")]
    one.calls.close()
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]


@pytest.mark.parametrize("held", ["by another process", "by another thread"])
def test_where_the_trail_would_wait_the_loop_serves(scene: Callable[..., Scene], held: str) -> None:
    """The thread that submits is not held up, nothing happens meanwhile, and it happens when the trail is free."""
    one = scene()
    other = sqlite3.connect(one.log.path, isolation_level=None)
    if held == "by another process":
        other.execute("BEGIN IMMEDIATE")
    else:
        one.log._turn.acquire()
    one.submit()
    # Had it waited here, the attempt would have been over, and nothing would be under way.
    assert one.calls.in_flight == (1,)
    assert one.notes.asked == []
    if held == "by another process":
        other.execute("ROLLBACK")
    else:
        one.log._turn.release()
    other.close()
    assert not one.answer().code
    assert [thread for _, thread in one.notes.asked] == ["fastness-broker"]
    assert one.ask().value == b'"k"'
    one.calls.close()
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")] * 2
    assert verify(one.log.path, one.log.key).whole


def test_an_outcome_that_would_wait_is_left_to_the_loop(scene: Callable[..., Scene]) -> None:
    """The answer is there, and the record comes when the trail is free."""
    one = scene()
    one.submit()
    one.log._turn.acquire()
    assert one.answer().value == b'"k"'
    assert one.calls.answers() == []
    assert one.rows() == [("get", "intent", "")]
    one.log._turn.release()
    one.calls.close()
    ends = time.monotonic() + 10
    while len(one.rows()) < 2 and time.monotonic() < ends:
        time.sleep(0.005)
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]


def test_refusals_and_failures_are_those_of_the_loop(scene: Callable[..., Scene]) -> None:
    """A grant that ended, arguments of another type, and what an adapter raises."""

    def work(key: str) -> str:
        if key == "outside":
            raise Denied(DenialCode.OUTSIDE, key)
        if key == "broken":
            raise AdapterError("it broke")
        raise RuntimeError("/home/of/the/host")

    one = scene(work)
    assert one.ask(key=5).code == "invalid"
    assert one.ask(key="outside").code == "outside"
    assert (found := one.ask(key="broken")).code == "failed" and found.message == "it broke"
    assert one.ask(key="other").message == "the capability failed (RuntimeError)"
    one.revision = 2
    assert one.ask().code == "revoked"
    one.calls.close()
    assert [row[2] for row in one.rows() if row[1] == "outcome"] == ["outside", "failed", "failed"]
    assert [row.code for row in one.calls.denials()[0]] == [DenialCode.OUTSIDE, DenialCode.REVOKED]
    assert len(one.notes.asked) == 3


def test_after_its_time_nothing_is_done(scene: Callable[..., Scene]) -> None:
    one = scene()
    one.calls.close()
    one.calls = one.run(here=True, deadline=time.monotonic() - 1)
    assert one.ask().message == "the run's time is over"
    assert one.notes.asked == []


def test_closing_waits_for_what_another_thread_serves(scene: Callable[..., Scene]) -> None:
    """When it has returned, nothing goes on, and what was done is recorded."""
    begun, go = threading.Event(), threading.Event()
    ended: list[float] = []

    def work(key: str) -> None:
        begun.set()
        go.wait(10)
        ended.append(1)

    one = scene(work)
    submitting = threading.Thread(target=one.submit)
    submitting.start()
    begun.wait(10)
    threading.Timer(0.05, go.set).start()
    one.calls.close()
    assert ended == [1]
    submitting.join()
    assert one.rows() == [("get", "intent", ""), ("get", "outcome", "")]


_DIES = """
import os, signal, sys, time
from fastness.audit.log import AuditLog
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.capabilities.storage import Storage, StorageScope
base, when = sys.argv[1:]
log = AuditLog(base + "/audit.db", base + "/audit.key")
log.event(op="begin")
storage = Storage(base + "/storage.db")
def dies(*of):
    os.kill(os.getpid(), signal.SIGKILL)
gate = Gate({"storage": StorageScope(quota=10000)}, {"storage": storage.spec}, {"storage": storage})
calls = RunCalls(gate, log, run="r", plugin="p", owner="o", calls=100, value_bytes=1000, here=True)
ask = lambda id: calls.submit(id, "storage", "get", b'{"key":"k"}')
ask(1)
while not calls.answers(): time.sleep(0.001)
calls.answers()
if when == "effect":
    storage._value = dies
    ask(2)
ask(2)
assert calls.answers()
dies()
"""


@pytest.mark.parametrize("when", ["effect", "answer"])
def test_a_kill_between_intent_and_outcome_shows(tmp_path: Path, when: str) -> None:
    """A host that dies in the effect, or after the answer and before its record: the next start says so."""
    died = subprocess.run([sys.executable, "-c", _DIES, str(tmp_path), when], check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    log = AuditLog(str(tmp_path / "audit.db"), str(tmp_path / "audit.key"))
    log.event(op="after")
    rows = [(row.seq, row.op, row.phase, row.code, row.intent) for row in reading.records(log.path)]
    log.close()
    assert rows == [
        (1, "begin", "event", "", 0),
        (2, "get", "intent", "", 0),
        (3, "get", "outcome", "", 2),
        (4, "get", "intent", "", 0),
        (5, "get", "outcome", KILLED, 4),
        (6, "after", "event", "", 0),
    ]
    assert verify(log.path, log.key).whole


def test_two_processes_take_turns_with_one_trail(tmp_path: Path) -> None:
    """Each writes after the other's last record, whichever it knew of: one chain, no number twice."""
    path, key = str(tmp_path / "audit.db"), str(tmp_path / "audit.key")
    logs = [AuditLog(path, key), AuditLog(path, key)]
    for number in range(30):
        logs[number % 2 if number < 20 else 0].event(op=f"e{number}")
    for log in logs:
        log.close()
    assert [row.op for row in reading.records(path)] == [f"e{number}" for number in range(30)]
    assert verify(path, key).whole


def test_storage_at_once_is_storage(tmp_path: Path) -> None:
    """Values, refusals and quotas are the same; what another process holds is left for later, undone."""
    storage = Storage(str(tmp_path / "storage.db"))
    context = CallContext(plugin="p", owner="o", run="r", scope=StorageScope(quota=1000), deadline=time.monotonic() + 9)

    def ask(name: str, **arguments: Any) -> Any:
        operation = storage.spec.operation(name)
        assert operation is not None
        return storage.at_once(name, operation.arguments(**arguments), context)

    with pytest.raises(Later):
        ask("get", key="k")
    # Opening the file may wait for others, so that is not done at once.
    with storage._database.reading():
        pass
    assert ask("put", key="k", value=[1, b"x"]) is None
    assert (ask("get", key="k"), ask("get", key="gone")) == ([1, b"x"], None)
    assert ask("list")["keys"] == ["k"]
    other = sqlite3.connect(tmp_path / "storage.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Later):
        ask("put", key="k", value=2)
    assert ask("get", key="k") == [1, b"x"]
    other.execute("ROLLBACK")
    other.close()
    assert ask("delete", key="k") is True
    os.unlink(tmp_path / "storage.db")
    with pytest.raises(Later):
        ask("get", key="k")
    storage._database.close()


def test_a_grant_that_ends_between_the_record_and_the_effect(scene: Callable[..., Scene]) -> None:
    """Whoever revoked then has seen no record, so there may be no effect on this thread either."""
    one = scene()
    assert one.ask().code == ""
    done = len(one.notes.asked)
    quick = one.calls._quick
    assert quick is not None
    intend = quick.intend_at_once

    def revoked_meanwhile(intent: Any) -> int | None:
        number = intend(intent)
        one.revision = 2
        return number

    one.calls._quick = type("Quick", (), {"intend_at_once": staticmethod(revoked_meanwhile)})()
    assert one.ask().code == "revoked"
    assert len(one.notes.asked) == done
