"""
An engine that a guest has taken over makes calls as it likes: it gets no further than its guest's ctx does.

As in the tests of a hostile engine, a program stands in for it.  The broker is the real one, with a small adapter.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from test_hostile_engine import _GREETING, _STAND_IN

from fastness.backends import conversation, engine_process
from fastness.backends.base import Staged
from fastness.backends.engine_process import EngineProcess
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.limits import Limits
from fastness.runner import request as requests
from fastness.runs import OutcomeKind
from fastness.waiting import ThreadWaiting, drive


class PoundScope(Scope, frozen=True, tag="pound"):
    pass


class Size(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int = 0


SPEC = Spec(
    kind="pound",
    scope=PoundScope,
    operations=tuple(
        Operation(name=name, arguments=Size, target=lambda given: "", summary="") for name in ("give", "slow")
    ),
    meet=lambda asked, allowed: asked,
    exceeds=lambda asked, allowed: [],
    risk=lambda scope: "",
    enforced=(),
)


class Pound:
    spec = SPEC

    def __init__(self) -> None:
        self.began = 0
        self.now = 0
        self.most = 0

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        self.began += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(3600 if operation == "slow" else 0)
            return b"x" * arguments.size
        finally:
            self.now -= 1

    async def aclose(self) -> None:
        pass


class Nowhere:
    def intend(self, intent: Any) -> int:
        return 1

    def done(self, number: int, intent: Any, **said: Any) -> None:
        pass

    def refused(self, intent: Any, *, code: str) -> None:
        pass


#: What a stand-in says of calls.
_CALLS = """
def call(id, operation="give", **arguments):
    send(f.CALL, {"id": id, "capability": "pound", "operation": operation}, json.dumps(arguments).encode())
"""


class Met:
    def __init__(self) -> None:
        self.pound = Pound()
        self.report: Any = None
        self.quiet = False
        self.again: Any = None
        self.events: list[Any] = []


def meet(
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    *,
    again: str = "",
    calls: int = 100,
    met: Met | None = None,
    sink: Any = None,
    **options: Any,
) -> Met:
    """Have a stand-in serve a run with calls, and another after it where there are lines for one."""
    more = f"receive_invoke()\n{again}\n" if again else ""
    skip = """
def receive_invoke():
    while (frame := receive()).type != f.INVOKE:
        pass
    return frame
"""
    text = (
        _STAND_IN + _CALLS + skip + _GREETING + "receive_invoke()\n" + lines + "\n" + more + "receive()\nos._exit(0)\n"
    )
    monkeypatch.setattr(engine_process, "_BOOT", text)
    waiting = ThreadWaiting()
    engine = EngineProcess.spawn([], waiting)
    met = met or Met()
    hear = sink or (lambda *event: met.events.append(event))

    def made() -> RunCalls:
        gate = Gate({"pound": PoundScope()}, {"pound": SPEC}, {"pound": met.pound})
        return RunCalls(
            gate, Nowhere(), run="r", plugin="p", owner="o", calls=calls, value_bytes=4 << 20,
            deadline=time.monotonic() + 30,
        )  # fmt: skip

    async def one() -> Any:
        request = requests.make("1", {"timeout": 5, **options}, {})
        return await conversation.converse(
            engine, waiting, engine.next_id(), request, Staged(),
            hear, "run", calls=made(),
        )  # fmt: skip

    async def main() -> None:
        await engine.start("python", {})
        talk = await one()
        met.report = talk.report
        await waiting.call(lambda: time.sleep(0.5))
        met.quiet = engine.quiet
        if again:
            assert talk.reusable, talk.report
            met.again = (await one()).report

    try:
        drive(main())
    finally:
        engine.close()
    assert met.pound.now == 0, "calls went on after their run"
    return met


def test_a_stand_in_may_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: calls are answered, and the run is good."""
    met = meet(monkeypatch, "call(1, size=3); frame = receive(); result(GOOD) if frame.type == f.REPLY else 0")
    assert (met.report.outcome.kind, met.report.usage.calls) == (OutcomeKind.OK, 1)


_BROKEN = {
    "an id twice": "call(1); call(1)",
    "an id that falls": "call(2); call(1)",
    "no id": "send(f.CALL, {'capability': 'pound', 'operation': 'give'})",
    "another owner": "send(f.CALL, {'id': 1, 'capability': 'pound', 'operation': 'give', 'owner': 'root'})",
    "a name that is long": "send(f.CALL, {'id': 1, 'capability': 'x' * 65, 'operation': 'give'})",
    "a drop of nothing": "send(f.DROP, {'id': 1})",
    "an answer of its own": "call(1); send(f.REPLY, {'id': 1}, b'1')",
    "a line that is none": "send(f.LOG, {'level': 'loud', 'text': 'x'})",
}


@pytest.mark.parametrize("name", _BROKEN)
def test_calls_out_of_order_break_the_protocol(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """They end the engine, as anything else out of order does."""
    met = meet(monkeypatch, _BROKEN[name] + "; receive()")
    assert met.report.outcome.kind is OutcomeKind.PROTOCOL


def test_a_call_between_runs_makes_an_engine_useless(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes when nothing runs is nobody's call: it is not made, and no next run gets such an engine."""
    for late in ("", "; time.sleep(0.3)"):
        met = meet(monkeypatch, f"result(GOOD){late}; call(1)")
        assert met.report.outcome.kind is OutcomeKind.OK
        assert (met.quiet, met.pound.began) == (False, 0)
    assert meet(monkeypatch, "result(GOOD)").quiet, "the control"


def test_more_at_once_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not hold its guest back is not read, and ends at the deadline."""
    met = meet(
        monkeypatch,
        "for i in range(1, 50): call(i, 'slow')\nresult(GOOD)",
        timeout=0.5,
        limits=Limits(calls_in_flight=4),
    )
    assert met.report.outcome.kind is OutcomeKind.TIMEOUT
    assert met.pound.most <= 5


def test_answers_that_are_never_read_wait_where_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that reads nothing gets no more done than the limit, so what is kept for it is bounded."""
    met = meet(monkeypatch, "for i in range(1, 90): call(i, size=2000000)\ntime.sleep(30)", timeout=1.0)
    assert met.report.outcome.kind is OutcomeKind.TIMEOUT
    assert met.pound.began <= 2 * 17


def test_too_many_calls_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the run's calls nothing is taken any more, whatever the engine goes on to say."""
    met = meet(monkeypatch, "for i in range(1, 50): call(i)\nresult(GOOD)", calls=7)
    assert met.report.outcome.kind is OutcomeKind.CALL_LIMIT
    assert (met.report.usage.calls, met.report.value) == (7, None)
    assert met.pound.began <= 7


def test_a_call_after_a_cancel_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes between a cancel and the end of the run is nobody's wish any more."""
    lines = "send(f.LOG, {'level': 'info', 'text': 'x'}); time.sleep(0.03)\nfor i in range(1, 5): call(i)\nresult(GOOD)"
    met = Met()

    def stop(name: str, data: object) -> None:
        raise KeyError("stopped")

    with pytest.raises(KeyError, match="stopped"):
        meet(monkeypatch, lines, met=met, sink=stop)
    assert met.pound.began == 0


def test_an_answer_sent_in_part_is_sent_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends amid a large answer leaves whole frames on the channel, and the next run is served."""
    lines = "call(1, size=3000000); time.sleep(0.3); call(2); time.sleep(0.2); result(GOOD)"
    again = "call(3, size=1); frame = receive(); result(GOOD, id=2) if json.loads(frame.head)['id'] == 3 else 0"
    met = meet(monkeypatch, lines, again=again)
    assert met.report.outcome.kind is OutcomeKind.OK
    assert (met.again.outcome.kind, met.again.usage.calls) == (OutcomeKind.OK, 1)


def test_lines_of_a_log_are_held_to_the_limit_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own count is its word; this side keeps another."""
    met = meet(
        monkeypatch, "for i in range(500): send(f.LOG, {'level': 'info', 'text': 'x' * 100})\nresult(GOOD)",
        limits=Limits(log_bytes=1000),
    )  # fmt: skip
    assert met.report.outcome.kind is OutcomeKind.OK
    assert len(met.events) == 7
