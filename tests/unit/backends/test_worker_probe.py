"""
The verdict on the worker tier: each answer that is not as it should be costs its guarantee.
"""

from __future__ import annotations

from typing import Any

import pytest

from fastness.backends import worker_probe
from fastness.backends.base import Report
from fastness.backends.worker import WorkerBackend
from fastness.errors import BackendError
from fastness.runs import Outcome, OutcomeKind, RunRequest, Usage
from fastness.tier import Guarantee, Probe, Tier
from fastness.waiting import ThreadWaiting, drive


def report(kind: OutcomeKind = OutcomeKind.OK, value: Any = None, **more: Any) -> Report:
    return Report(outcome=Outcome(kind), value=value, **more)


#: A part of each program that tries, with a good answer.
GOOD: dict[str, Report] = {
    "environ": report(value=[False, False, 9]),
    "getpid": report(value=-1),
    "pass": report(OutcomeKind.TIMEOUT, usage=Usage(wall_s=0.06)),
    "bytearray": report(value=True),
    "print": report(OutcomeKind.OUTPUT_LIMIT, stdout=b"x" * 4096),
    "abort": report(OutcomeKind.CRASHED),
    "1 + 1": report(value=2),
    "_ctypes": report(value=True),
}


def judged(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> Probe:
    async def run(self: WorkerBackend, request: RunRequest, staged: object, sink: object) -> Report:
        answer = next(answer for part, answer in {**GOOD, **answers}.items() if part in (request.code or ""))
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Report)
        return answer

    monkeypatch.setattr(WorkerBackend, "run", run)
    return drive(worker_probe._probe(WorkerBackend(waiting=ThreadWaiting())))


def test_all_good(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(monkeypatch)
    assert verdict.holds, verdict.failures
    assert set(verdict.guarantees) == {guarantee.value for guarantee in Tier.WORKER.guarantees}


BAD = [
    ("environ", report(value=[True, False, 9]), Guarantee.ENV_SCRUBBED),
    ("environ", report(value=[False, True, 9]), Guarantee.ENV_SCRUBBED),
    ("environ", report(OutcomeKind.GUEST_ERROR), Guarantee.ENV_SCRUBBED),
    ("getpid", report(value=None), Guarantee.ADDRESS_SPACE),
    ("getpid", report(OutcomeKind.CRASHED), Guarantee.ADDRESS_SPACE),
    ("pass", report(), Guarantee.WALL_KILL),
    ("pass", report(OutcomeKind.TIMEOUT, usage=Usage(wall_s=3.0)), Guarantee.WALL_KILL),
    ("bytearray", report(value=False), Guarantee.MEM_CAP),
    ("bytearray", report(value=1), Guarantee.MEM_CAP),
    ("print", report(), Guarantee.OUTPUT_CAP),
    ("print", report(OutcomeKind.OUTPUT_LIMIT, stdout=b"x" * 9000), Guarantee.OUTPUT_CAP),
    ("abort", report(), Guarantee.CRASH_CONTAINED),
    ("1 + 1", report(value=3), Guarantee.CRASH_CONTAINED),
]


@pytest.mark.parametrize(("part", "answer", "guarantee"), BAD)
def test_one_bad_answer(part: str, answer: Report, guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(monkeypatch, **{part: answer})
    assert [failure.guarantee for failure in verdict.failures] == [guarantee.value]
    assert not verdict.holds


def test_a_firewall_that_lets_something_through(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(monkeypatch, _ctypes=report(value=False))
    assert not verdict.holds
    assert "module firewall" in verdict.failures[0].cause


def test_a_host_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(monkeypatch, environ=BackendError("starting a worker", "no memory"))
    assert not verdict.holds
    assert "no memory" in verdict.failures[0].cause
