"""The meter of a run: what it counts, when it lets a call through, and what it holds meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import house
from fastness.errors import BackendError, QuotaExceeded
from fastness.metering.ledger import Ledger
from fastness.metering.meter import Meter
from fastness.metering.quotas import Quota


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "usage.db")


def totals(ledger: Ledger) -> dict[str, int]:
    rows = ledger.used()
    names = ("runs", "calls", "refused", "bytes_in", "bytes_out", "cpu_micros")
    found = {name: sum(getattr(row, name) for row in rows) for name in names}
    return {**found, "held": sum(row.held.calls for row in rows if row.held is not None)}


def test_what_a_run_used(path: str) -> None:
    """By kind; written when it is over, and not again."""
    ledger = Ledger(path)
    meter = Meter(ledger, "p", "o")
    assert meter.begin(30.0) == 30.0
    for kind, size in (("fs", 5), ("fs", 6), ("net", 100)):
        assert meter.take()
        meter.over(kind, bytes_in=size, bytes_out=1, cpu_s=0.5 if kind == "net" else 0.0, cost=7)
    assert ledger.used() == []
    meter.end(0.25)
    meter.end(99.0)
    rows = {row.kind: row for row in ledger.used()}
    assert (rows[""].runs, rows[""].cpu_micros) == (1, 250_000)
    assert (rows["fs"].calls, rows["fs"].bytes_in, rows["fs"].bytes_out) == (2, 11, 2)
    assert (rows["net"].calls, rows["net"].cpu_micros) == (1, 500_000)
    # Whoever spends money writes it down.
    assert (meter.cost, sum(row.cost for row in rows.values())) == (21, 0)


def test_a_call_that_comes_to_rest_late(path: str) -> None:
    """It is counted after its run is over."""
    ledger = Ledger(path)
    meter = Meter(ledger, "p", "o")
    meter.take()
    meter.end(0.0)
    meter.over("fs", bytes_in=3)
    assert totals(ledger)["bytes_in"] == 3


def test_calls_up_to_a_quota(path: str) -> None:
    """Exactly so many are let through, however many runs share them; then each is refused, and that is counted."""
    ledger = Ledger(path, [Quota(owner="*", calls=1000)])
    went = 0
    for _ in range(4):
        meter = Meter(ledger, "p", "o")
        meter.begin(1.0)
        try:
            for _ in range(400):
                meter.admit()
                went += 1
                meter.over("fs")
        except QuotaExceeded:
            meter.refused("fs")
        meter.end(0.0)
    assert went == 1000
    assert totals(ledger) == {
        "runs": 4,
        "calls": 1000,
        "refused": 2,
        "bytes_in": 0,
        "bytes_out": 0,
        "cpu_micros": 0,
        "held": 0,
    }


def test_runs_at_once_find_something_each(path: str) -> None:
    """One that has begun to call leaves most of what is left to others; together they do not pass it."""
    ledger = Ledger(path, [Quota(calls=64)])
    meters = [Meter(ledger, "p", "o") for _ in range(8)]
    for meter in meters:
        meter.admit()
    assert totals(ledger)["held"] <= 64
    went = 0
    for meter in meters:
        try:
            while True:
                meter.over("fs")
                went += 1
                meter.admit()
        except QuotaExceeded:
            meter.end(0.0)
    assert went == 64


def test_threads_of_one_run(path: str) -> None:
    """No more calls than the quota are let through to threads together, with some under way all the time."""
    ledger = Ledger(path, [Quota(calls=300)])
    meter = Meter(ledger, "p", "o")
    went: list[int] = []

    def work() -> None:
        flying = 0
        while True:
            try:
                if not meter.take():
                    meter.admit()
            except QuotaExceeded:
                break
            went.append(1)
            flying += 1
            if flying == 5:
                for _ in range(flying):
                    meter.over("fs")
                flying = 0
        for _ in range(flying):
            meter.over("fs")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meter.end(0.0)
    assert len(went) == 300
    assert totals(ledger)["calls"] == 300


def test_nobody_waits_for_the_ledger_without_need(path: str) -> None:
    """While one call asks for more, others are told to ask too, and calls that are over are counted."""
    ledger = Ledger(path, [Quota(calls=1000)])
    meter = Meter(ledger, "p", "o")
    meter.admit()
    inside, go_on = threading.Event(), threading.Event()
    take = ledger.take

    def slow(*given: Any, **named: Any) -> Any:
        inside.set()
        assert go_on.wait(10)
        return take(*given, **named)

    ledger.take = slow  # type: ignore[method-assign]  # a ledger that is in use
    while meter.take():
        meter.over("fs")
    asking = threading.Thread(target=meter.admit)
    asking.start()
    assert inside.wait(10)
    assert not meter.take()
    meter.over("fs", bytes_in=7)
    go_on.set()
    asking.join(10)
    meter.over("fs")
    meter.end(0.0)
    found = totals(ledger)
    assert (found["bytes_in"], found["held"]) == (7, 0)
    assert found["calls"] == 2 + 124


def test_a_call_that_is_admitted_when_its_run_is_over(path: str) -> None:
    """It leaves nothing held, and is counted."""
    ledger = Ledger(path, [Quota(calls=1000)])
    meter = Meter(ledger, "p", "o")
    meter.end(0.0)
    meter.admit()
    meter.over("fs")
    assert (totals(ledger)["held"], totals(ledger)["calls"]) == (0, 1)


def test_bytes(path: str) -> None:
    """Past the quota no call begins; what calls under way bring is counted."""
    ledger = Ledger(path, [Quota(bytes=1000)])
    meter = Meter(ledger, "p", "o")
    went = 0
    with pytest.raises(QuotaExceeded, match="to and from guests"):
        while True:
            meter.admit()
            went += 1
            meter.over("fs", bytes_in=60, bytes_out=40)
    meter.end(0.0)
    assert 10 <= went <= 11
    assert totals(ledger)["bytes_in"] + totals(ledger)["bytes_out"] == went * 100


def test_processor_time(path: str) -> None:
    """A run gets no more than is left, holds it meanwhile, and is not begun where nothing is left."""
    ledger = Ledger(path, [Quota(owner="*", cpu_micros=10_000_000)])
    first, second, third = (Meter(ledger, "p", "o") for _ in range(3))
    assert first.begin(6.0) == 6.0
    assert second.begin(6.0) == 4.0
    with pytest.raises(QuotaExceeded):
        third.begin(6.0)
    first.end(0.5)
    assert third.begin(6.0) == 5.5
    # Where nobody knows how much it took, it is all that it could have.
    second.end(None)
    third.end(1.0)
    assert totals(ledger)["cpu_micros"] == 5_500_000


def test_a_ledger_that_cannot_be_written(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Where a quota bounds it nothing is let through; where none does, what was not written is said."""
    Path(path).write_bytes(b"no database" * 1000)
    Path(path).chmod(0o600)
    bounded = Meter(Ledger(path, [Quota(calls=5, cpu_micros=10**9)]), "p", "o")
    with pytest.raises(BackendError):
        bounded.begin(1.0)
    with pytest.raises(BackendError):
        bounded.admit()
    free = Meter(Ledger(path), "p", "o")
    free.begin(1.0)
    free.admit()
    free.over("fs")
    free.end(0.0)
    assert "not written down" in caplog.text


@settings(max_examples=house.examples(30), deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 400), st.booleans(), st.booleans()), max_size=60),
    most=st.integers(0, 50),
    bytes_most=st.integers(0, 5000),
)
def test_counts_are_exact(
    sizes: list[tuple[int, bool, bool]], most: int, bytes_most: int, tmp_path_factory: Any
) -> None:
    """Of calls in any order, some given back, some at rest late: those let through are those counted, within the quota."""
    ledger = Ledger(str(tmp_path_factory.mktemp("meter") / "usage.db"), [Quota(calls=most, bytes=bytes_most)])
    meter = Meter(ledger, "p", "o")
    flying: list[int] = []
    went = moved = largest = 0
    for size, late, back in sizes:
        try:
            meter.admit()
        except QuotaExceeded:
            meter.refused("fs")
            continue
        if back:
            meter.give_back()
            continue
        went += 1
        moved += size
        largest = max(largest, size)
        flying.append(size)
        if not late:
            for one in flying:
                meter.over("fs", bytes_in=one)
            flying.clear()
    assert went <= most
    meter.end(0.0)
    for one in flying:
        meter.over("fs", bytes_in=one)
    found = totals(ledger)
    assert (found["calls"], found["bytes_in"], found["held"]) == (went, moved, 0)
    ledger.close()
