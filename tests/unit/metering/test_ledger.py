"""The ledger: what is taken counts at once, quotas hold for whoever takes together, and what is settled is settled once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import house
from fastness.errors import BackendError, ConfigurationError, QuotaExceeded
from fastness.metering.ledger import Held, Ledger, Tally, counted
from fastness.metering.money import UNIT, in_money, nanos
from fastness.metering.quotas import Amounts, Quota, first_day, quota_of

DAY_S = 86_400


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "usage.db")


def take(
    ledger: Ledger, wanted: int, least: int | None = None, plugin: str = "p", owner: str = "o", **how: Any
) -> Held:
    amounts = Amounts(calls=wanted)
    return ledger.take(plugin, owner, "kind", amounts, Amounts(calls=wanted if least is None else least), **how)


def settle(ledger: Ledger, held: Held, calls: int) -> None:
    ledger.settle([held], {"kind": Tally(calls=calls)}, plugin=held.plugin, owner=held.owner)


def calls(ledger: Ledger) -> int:
    return sum(row.calls + (row.held.calls if row.held is not None else 0) for row in ledger.used())


# money


@pytest.mark.parametrize(
    ("value", "amount"),
    [(0, 0), (1, UNIT), (0.15, 150_000_000), (0.0375, 37_500_000), (1e-9, 1), (1e-10, 1), (0.1 + 0.2, 300_000_001)],
)
def test_money(value: float, amount: int) -> None:
    """Amounts are exact to nine decimals as they are written, and rounded up beyond."""
    assert nanos(value, "x") == amount


@pytest.mark.parametrize("value", [-1, -0.01, float("nan"), float("inf"), 1e7, True, "1", None, [1]])
def test_what_is_no_money(value: object) -> None:
    """It is refused by the name of its field."""
    with pytest.raises(ConfigurationError, match="cost"):
        nanos(value, "cost")


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0.00"), (UNIT, "1.00"), (12_345_678, "0.012345678"), (-1, "-0.000000001")]
)
def test_money_in_words(amount: int, text: str) -> None:
    """All of it is shown."""
    assert in_money(amount) == text
    assert in_money(amount, "USD") == f"{text} USD"


# quotas


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"per": "day"},
        {"calls": -1},
        {"calls": 1.5},
        {"calls": True},
        {"calls": "many"},
        {"bytes": "lots"},
        {"cost": -1},
        {"cost": float("nan")},
        {"cpu_s": float("nan")},
        {"cpu_s": -1},
        {"calls": 1, "per": "week"},
        {"calls": 1, "owner": 7},
        {"calls": 1, "plugin": ["a"]},
        {"calls": 2**60},
    ],
    ids=repr,
)
def test_what_is_no_quota(plain: dict[str, Any]) -> None:
    """It is refused, and the field is named; one that bounds nothing is a mistake too."""
    with pytest.raises(ConfigurationError, match=r"quota\[3\]"):
        quota_of(plain, "quota[3]")


def test_a_quota_as_it_is_written() -> None:
    """Sizes with units, seconds, and money."""
    made = quota_of(
        {"owner": "*", "plugin": "a", "per": "month", "bytes": "1G", "cpu_s": 1.5, "cost": 0.25, "calls": 3}, "q"
    )
    assert made == Quota(
        owner="*", plugin="a", per="month", bytes=1 << 30, cpu_micros=1_500_000, cost=UNIT // 4, calls=3
    )


@pytest.mark.parametrize(
    ("quota", "apart"),
    [
        (Quota(calls=10), ()),
        (Quota(owner="*", calls=10), ("owner",)),
        (Quota(plugin="*", calls=10), ("plugin",)),
        (Quota(owner="*", plugin="*", calls=10), ("owner", "plugin")),
    ],
    ids=["all", "each owner", "each plugin", "each of both"],
)
def test_whose_use_counts(quota: Quota, apart: tuple[str, ...], path: str) -> None:
    """What has a star is counted apart, what is left out together."""
    ledger = Ledger(path, [quota])
    settle(ledger, take(ledger, 10), 10)
    for name in ("owner", "plugin"):
        other = {name: "another"}
        if name in apart:
            settle(ledger, take(ledger, 10, **other), 10)
        else:
            with pytest.raises(QuotaExceeded):
                take(ledger, 1, **other)
    with pytest.raises(QuotaExceeded):
        take(ledger, 1)


def test_a_quota_of_one(path: str) -> None:
    """A name is that one and no other, whatever begins like it."""
    ledger = Ledger(path, [Quota(owner="ann", plugin="p", calls=1)])
    take(ledger, 1, owner="ann")
    with pytest.raises(QuotaExceeded):
        take(ledger, 1, owner="ann")
    for other in ({"owner": "anna"}, {"owner": "an"}, {"owner": "%"}, {"owner": "ann", "plugin": "pp"}):
        take(ledger, 100, **other)


@pytest.mark.parametrize("per", ["day", "month", "ever"])
def test_when_it_begins_anew(per: str, path: str) -> None:
    """With the day, with the month, or never; a clock that goes back finds what was used by then."""
    # The last second of a month: 1970-01-31.
    now = [31 * DAY_S - 1.0]
    ledger = Ledger(path, [Quota(per=per, calls=10)], clock=lambda: now[0])  # type: ignore[arg-type]  # one of three
    settle(ledger, take(ledger, 10), 10)
    now[0] -= DAY_S
    with pytest.raises(QuotaExceeded):
        take(ledger, 1)
    now[0] += DAY_S
    with pytest.raises(QuotaExceeded):
        take(ledger, 1)
    now[0] += 2
    if per == "ever":
        with pytest.raises(QuotaExceeded):
            take(ledger, 1)
    else:
        take(ledger, 10)


@pytest.mark.parametrize("clock", [-1e12, -1.0, 0.0, 1e12, 1e15])
def test_clocks_that_are_wrong(clock: float, path: str) -> None:
    """A quota holds on whatever day it is."""
    ledger = Ledger(path, [Quota(per="month", calls=1)], clock=lambda: clock)
    take(ledger, 1)
    with pytest.raises(QuotaExceeded):
        take(ledger, 1)


def test_months() -> None:
    """The first day of the month that a day is in."""
    assert [first_day("month", day) for day in (0, 30, 31, 58, 59)] == [0, 0, 31, 31, 59]


# taking and settling


def test_as_much_as_there_is(path: str) -> None:
    """What is left is given, down to the least; a share leaves something for others."""
    ledger = Ledger(path, [Quota(calls=100)])
    assert take(ledger, 80, least=1, share=8).amounts.calls == 12
    assert take(ledger, 80, least=1).amounts.calls == 80
    assert take(ledger, 80, least=1, share=8).amounts.calls == 1
    assert take(ledger, 80, least=5).amounts.calls == 7
    with pytest.raises(QuotaExceeded, match="no more than 100 calls a day"):
        take(ledger, 80, least=1)


def test_settled_once(path: str) -> None:
    """Twice settled counts once; and what was not used can be taken again."""
    ledger = Ledger(path, [Quota(calls=10)])
    held = take(ledger, 10)
    settle(ledger, held, 4)
    settle(ledger, held, 4)
    assert calls(ledger) == 4
    assert take(ledger, 10, least=1).amounts.calls == 6


def test_what_is_not_bounded_is_counted(path: str) -> None:
    """Without a quota everything is given, and written down."""
    ledger = Ledger(path)
    assert ledger.bounds("p", "o") == frozenset()
    assert take(ledger, 10**9).amounts.calls == 10**9
    assert Ledger(path, [Quota(cost=1)]).bounds("p", "o") == {"cost"}


def test_threads_at_once(path: str) -> None:
    """Of threads that take from several ledgers on one file, no more go through than there is room for."""
    ledgers = [Ledger(path, [Quota(owner="*", calls=30)]) for _ in range(3)]
    went: list[int] = []
    start = threading.Barrier(12)

    def work(ledger: Ledger) -> None:
        start.wait()
        for _ in range(10):
            try:
                held = take(ledger, 1)
            except QuotaExceeded:
                continue
            went.append(held.id)
            if len(went) % 2:
                settle(ledger, held, 1)

    threads = [threading.Thread(target=work, args=(ledgers[number % 3],)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(went) == len(set(went)) == 30
    assert calls(ledgers[0]) == 30


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, 40), st.integers(1, 40)),
        st.tuples(st.just("settle"), st.integers(0, 20), st.integers(0, 40)),
        st.tuples(st.just("lose"), st.integers(0, 20), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=house.examples(40), deadline=None)
@given(steps=_STEPS, most=st.integers(0, 120))
def test_no_order_of_things_passes_a_quota(
    steps: list[tuple[str, int, int]], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is taken, settled for no more than it was, and never settled: what counts is never more than the quota."""
    ledger = Ledger(str(tmp_path_factory.mktemp("ledger") / "usage.db"), [Quota(calls=most)])
    held: list[Held] = []
    for what, first, second in steps:
        if what == "take":
            wanted, least = max(first, second), min(first, second)
            before = calls(ledger)
            try:
                held.append(take(ledger, wanted, least=least))
            except QuotaExceeded:
                assert most - before < least
        elif held:
            one = held.pop(first % len(held))
            if what == "settle":
                settle(ledger, one, min(second, one.amounts.calls))
        assert calls(ledger) <= most
    ledger.close()


def test_looking(path: str) -> None:
    """By plugin, owner and day; and how far each quota is used up."""
    now = [1000.0 * DAY_S]
    quota = Quota(owner="*", per="ever", calls=100)
    ledger = Ledger(path, [quota, Quota(owner="ann", cost=5)], clock=lambda: now[0])
    for owner, plugin in (("ann", "a"), ("ann", "b"), ("bob", "a")):
        held = take(ledger, 2, owner=owner, plugin=plugin)
        used = {"": Tally(runs=1, cpu_micros=7), "fs": Tally(calls=2, bytes_in=10, bytes_out=20, refused=1)}
        ledger.settle([held], used, plugin=plugin, owner=owner)
        now[0] += DAY_S
    take(ledger, 3, owner="ann", plugin="a")
    assert [(row.owner, row.plugin, row.day, row.kind) for row in ledger.used(owner="ann", plugin="b")] == [
        ("ann", "b", 1001, ""), ("ann", "b", 1001, "fs"),
    ]  # fmt: skip
    assert [row.day for row in ledger.used(since=1002)] == [1002, 1002, 1003]
    used, held = counted(ledger.used(owner="ann"))["ann", "a"]
    assert (used.runs, used.calls, used.bytes_in, used.bytes_out, used.refused, used.cpu_micros) == (1, 2, 10, 20, 1, 7)
    assert held["calls"] == 3
    (left,) = ledger.left("a", "bob")
    assert (left.quota, left.owner, left.plugin, left.used.calls, left.used.bytes) == (quota, "bob", "", 2, 30)
    assert len(ledger.left("a", "ann")) == 2


def test_a_ledger_that_cannot_be_used(path: str) -> None:
    """Each use says so, and nothing is taken."""
    Path(path).write_bytes(b"no database, as far as anybody can see" * 100)
    Path(path).chmod(0o600)
    ledger = Ledger(path)
    for work in (lambda: take(ledger, 1), ledger.used, lambda: ledger.left("p", "o")):
        with pytest.raises(BackendError):
            work()


def test_settled_and_taken_at_once(path: str) -> None:
    """What is given back for more is not there for others in between; where there is no more, it stays held."""
    ledger = Ledger(path, [Quota(calls=10)])
    first = take(ledger, 10)
    second = ledger.take(
        "p", "o", "kind", Amounts(calls=6), Amounts(calls=6), settles=[first], used={"kind": Tally(calls=4)}
    )
    assert (second.amounts.calls, calls(ledger)) == (6, 10)
    with pytest.raises(QuotaExceeded):
        ledger.take(
            "p", "o", "kind", Amounts(calls=7), Amounts(calls=7), settles=[second], used={"kind": Tally(calls=6)}
        )
    assert calls(ledger) == 10
    assert [row.held.calls for row in ledger.used() if row.held is not None] == [6]
    settle(ledger, second, 0)
    assert calls(ledger) == 4
