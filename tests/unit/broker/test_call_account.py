"""What the account says of a call: refused before any effect, done and its answer refused, or still under way."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_broker_calls import Paper, Scene, _until

import fastness
import listeners
from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.broker.calls import RunCalls
from fastness.broker.functions import Functions, HostScope
from fastness.broker.gate import Gate
from fastness.brokered import Answer
from fastness.capabilities.net import SPEC, Net
from fastness.capability import CallContext
from fastness.errors import Denied, QuotaExceeded
from fastness.wire import values
from listeners import Listener, Names, answer, guard, scope
from plugin_homes import own_home, package, rows

SLOW = {"kind": "host", "names": ["slow"], "reason": "to wait"}


@pytest.mark.parametrize("error", [Denied("too_large", "x"), QuotaExceeded("no more")])
@pytest.mark.parametrize("effect", [True, False])
def test_an_answer_that_is_refused_is_no_call_that_was(effect: bool, error: Exception) -> None:
    """What an adapter refuses after its effect is recorded as done, whatever the guest is told."""

    def work(operation: str, given: Any, context: CallContext) -> Any:
        context.effect = effect
        raise error

    one = Scene(work)
    try:
        code = one.ask("notes", "put", {"key": "a"}).code
        assert code in ("too_large", "quota")
        assert one.paper.rows[-1][:3] == ("outcome", 1, f"answer_{code}" if effect else code)
        ((row,), _) = one.calls.denials()
        assert (row.code.value, row.layer) == (code, "answer" if effect else "broker")
    finally:
        one.calls.close()


def test_what_the_trail_says_of_both(tmp_path: Path) -> None:
    """As a reader finds it: the decision tells the two apart."""
    log = AuditLog(str(tmp_path / "audit.db"), str(tmp_path / "audit.key"))
    told = iter((True, False))

    def work(operation: str, given: Any, context: CallContext) -> Any:
        context.effect = next(told)
        raise Denied("too_large", "x")

    one = Scene(work)
    one.calls._trail = log
    try:
        one.ask("notes", "put", {"key": "a"})
        one.ask("notes", "put", {"key": "a"})
    finally:
        one.calls.close()
        log.close()
    ends = [(row.decision, row.code) for row in reading.records(log.path) if row.phase == "outcome"]
    assert ends == [("allowed", "answer_too_large"), ("refused", "too_large")]


@pytest.fixture
def server() -> Iterator[Listener]:
    def say(head: bytes) -> list[bytes]:
        where = {b"/away": "http://c.example/", b"/inside": f"http://b.test:{made.port}/"}
        path = head.split(b" ")[1]
        if path in where:
            return [answer(b"", status="307 Moved", headers=[("Location", where[path])])]
        return [answer(b"x" * 2000)]

    made = Listener(say)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("path", "codes", "code"),
    [
        ("/away", ["answer_redirect"], "redirect"),
        ("/large", ["answer_too_large"], "too_large"),
        # The second was announced, and not sent.
        ("/inside", ["answer_address", "address"], "address"),
    ],
)
def test_a_request_that_was_delivered(server: Listener, path: str, codes: list[str], code: str) -> None:
    """What the server has got is no refused request, whatever becomes of its answer."""
    paper = Paper()
    names = Names(a_test=["127.0.0.1"], b_test=["10.0.0.1"])
    net = Net(guard("a.test", port=server.port), resolve=names, response_bytes=1000)
    allowed = scope(server.port, hosts=("a.test", "b.test"))
    calls = RunCalls(Gate({"net": allowed}, {"net": SPEC}, {"net": net}), paper, **_fixed())
    try:
        with listeners.nothing_leaves():
            url = f"http://a.test:{server.port}{path}"
            calls.submit(1, "net", "request", values.encode({"method": "POST", "url": url, "body": b"data"}))
            assert _answer(calls).code == code
        ((row,), _) = calls.denials()
    finally:
        calls.close()
    assert server.bodies == [b"data"]
    assert [entry[2] for entry in paper.rows if entry[0] == "outcome"] == codes
    assert row.layer == "answer"


def test_a_request_that_was_not_sent(server: Listener) -> None:
    """The control: nothing has come to the server, and the record says that it was refused."""
    paper = Paper()
    net = Net(guard("a.test", port=server.port), resolve=Names(a_test=["10.0.0.1"]))
    calls = RunCalls(Gate({"net": scope(server.port)}, {"net": SPEC}, {"net": net}), paper, **_fixed())
    try:
        with listeners.nothing_leaves():
            url = f"http://a.test:{server.port}/"
            calls.submit(1, "net", "request", values.encode({"method": "POST", "url": url, "body": b"data"}))
            assert _answer(calls).code == "address"
    finally:
        calls.close()
    assert server.requests == []
    assert [entry[2] for entry in paper.rows if entry[0] == "outcome"] == ["address"]


# functions that nobody can stop


class Held:
    """A plain function of the host that goes on until it is let go."""

    def __init__(self) -> None:
        self.begun, self.hold = threading.Event(), threading.Event()
        self.done: list[int] = []
        self.paper = Paper()
        self.revision = 1

    def slow(self, n: int) -> int:
        self.begun.set()
        self.hold.wait(30)
        if n < 0:
            raise ValueError(n)
        self.done.append(n)
        return n

    def calls(self, **options: Any) -> RunCalls:
        functions = Functions({"slow": self.slow})
        gate = Gate(
            {"host": HostScope(names=("slow",))},
            {"host": functions.spec},
            {"host": functions},
            made_at=1,
            revision=lambda: self.revision,
        )
        return RunCalls(gate, self.paper, **{**_fixed(), **options})

    def codes(self) -> list[str]:
        return [row[2] for row in self.paper.rows if row[0] == "outcome"]


@pytest.mark.parametrize("number", [1, -1])
@pytest.mark.parametrize("way", ["revoked", "its run has ended", "its time is over"])
def test_what_nobody_can_stop_has_no_end_before_it_has(way: str, number: int) -> None:
    """The guest is answered, and the trail says nothing before it knows: then, what it did."""
    held = Held()
    calls = held.calls(deadline=time.monotonic() + (0.2 if way == "its time is over" else 30))
    try:
        calls.submit(1, "host", "slow", values.encode({"n": number}))
        assert held.begun.wait(10)
        if way == "revoked":
            held.revision = 2
            calls.revoke()
            assert _answer(calls).code == "revoked"
        elif way == "its time is over":
            assert _answer(calls).code == "failed"
        else:
            calls.close()
        assert held.codes() == []
        held.hold.set()
        _until(held.codes)
    finally:
        held.hold.set()
        calls.close()
    assert held.codes() == ["failed" if number < 0 else "late"]
    assert held.done == ([] if number < 0 else [1])


def test_revoking_lists_what_goes_on(tmp_path: Path) -> None:
    """A plain function that is under way is in flight, in this process and for any other, until it is not."""
    held = Held()
    with own_home(tmp_path / "home") as base, fastness.PluginHost(functions={"slow": held.slow}) as host:
        host.install(package(base.parent / "p", {"a.txt": "x"}, id="words", runtime="data", capabilities=[SLOW]))
        host.grant("words", owner="ann", all=True)
        caller = threading.Thread(
            target=_quietly, args=(lambda: host.call("words", "host.slow", {"n": 1}, owner="ann"),)
        )
        caller.start()
        try:
            assert held.begun.wait(10)
            (listed,) = host.revoke("words", owner="ann").in_flight
            assert (listed.capability, listed.operation, listed.owner) == ("host", "slow", "ann")
            caller.join(20)
            assert not caller.is_alive()
            # Another process asks the trail, as this does.
            assert [row.op for row in reading.waiting(str(base / "data" / "audit.db"), "words")] == ["slow"]
        finally:
            held.hold.set()
        _until(lambda: rows(base, op="slow", phase="outcome"))
        (end,) = rows(base, op="slow", phase="outcome")
        assert (end.decision, end.code) == ("allowed", "late")
        assert end.micros > 1_000_000
        assert host.revoke("words").in_flight == ()


def _fixed() -> dict[str, Any]:
    fixed: dict[str, Any] = {"run": "r", "plugin": "p", "owner": "o", "calls": 10, "value_bytes": 1 << 20}
    return {**fixed, "deadline": time.monotonic() + 20}


def _answer(calls: RunCalls) -> Answer:
    assert select.select([calls], [], [], 10)[0]
    (found,) = calls.answers()
    return found


def _quietly(work: Callable[[], object]) -> None:
    try:
        work()
    except fastness.FastnessError:
        pass
