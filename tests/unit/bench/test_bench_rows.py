"""Rows and samples of ``fastness bench``."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.bench import native, native_scale, ordinary, pace
from fastness.bench.rows import Row, percentile


@pytest.mark.parametrize(
    ("judged", "at_least", "kept"),
    [(0.2, False, True), (0.3, False, True), (0.4, False, False), (0.4, True, True), (0.2, True, False)],
)
def test_a_promise_is_a_bound(judged: float, at_least: bool, kept: bool) -> None:
    """From above unless the row says otherwise; the bound itself is within."""
    assert Row(name="x", judged=judged, promise=0.3, at_least=at_least).kept is kept


@pytest.mark.parametrize(
    ("judged", "at_least", "kept"),
    [(0.6, False, True), (0.61, False, False), (0.15, True, True), (0.14, True, False)],
)
def test_a_slower_machine_may_take_longer(judged: float, at_least: bool, kept: bool) -> None:
    """A time as many times as long as its bare process, and a rate as much lower; on a quicker one it is less."""
    assert Row(name="x", judged=judged, promise=0.3, at_least=at_least, pace=2.0).kept is kept
    assert Row(name="x", judged=0.2, promise=0.3, pace=0.5).kept is False


def test_the_pace_is_that_of_bare_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "times", lambda action, count: [14.0, 21.0, 7.0])
    assert pace.pace() == 2.0


def test_what_was_not_measured_is_neither_kept_nor_broken() -> None:
    """Nor is what was never promised."""
    assert Row(name="x", promise=1).kept is None
    assert Row(name="x", judged=1).kept is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.floats(0, 1))
def test_a_percentile_is_one_of_the_values(values: list[float], share: float) -> None:
    """And no larger than the largest."""
    assert percentile(values, share) in values


def test_samples_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn asks each sampler, and leaves out one sample at least, and what is taken for some time."""
    monkeypatch.setattr(native, "_SETTLE_S", 0)
    monkeypatch.setattr(native, "_BEGINNING_S", 0.02)
    order: list[str] = []

    def of(name: str, seconds: float) -> native.Sampler:
        def sample(count: int) -> list[float]:
            time.sleep(seconds)
            order.append(f"{name}{count}")
            return [1000.0] if count == 1 else [1.0] * count

        return sample

    found = native.taken_in_turn({"a": of("a", 0.03), "b": of("b", 0.001)}, rounds=3, each=4)
    assert [one for one in order if one != "b1"] == ["a1", "a4", "b4"] * 3
    assert order.count("b1") > 3
    assert found == {"a": [1.0] * 12, "b": [1.0] * 12}


def test_a_gap_is_not_part_of_a_sample() -> None:
    """Only the action is timed."""
    assert max(native.sampler(lambda: None, gap=0.05)(3)) < 40


def test_promises_from_below_are_promises() -> None:
    """A name that is spelled in two ways would be judged from the wrong side."""
    assert set(native.PROMISES) >= native.AT_LEAST


_PARTS = [native.latency, native_scale.throughput, native_scale.idle, native_scale.many, native_scale.thousand]


@pytest.mark.parametrize("part", [*_PARTS, native_scale.commands], ids=lambda part: part.__name__)
def test_a_tier_that_does_not_hold_is_a_row_with_a_note(part: ordinary.Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured nowhere and promises nothing broken."""
    for module in (native, native_scale):
        monkeypatch.setattr(module, "missing", lambda tier: f"{tier}: not here")
    rows = list(part(True))
    assert rows
    assert all("not here" in row.note and row.kept is None for row in rows)


def test_what_is_not_installed_is_a_row_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other sandboxes are named with the way to get them."""
    monkeypatch.setattr(native, "missing", lambda tier: "not here")
    monkeypatch.setattr(native, "_SETTLE_S", 0)
    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(native, "bare_process", lambda: None)
    notes = {row.name: row.note for row in native.rivals(True)}
    assert "bubblewrap" in notes["side by side: bwrap --unshare-all"]
    assert "pip install sandlock" in notes["side by side: sandlock"]


def test_a_rival_that_fails_is_a_row_with_a_note() -> None:
    """Whatever it raises."""

    def fails() -> object:
        raise LookupError("no such kernel")

    assert "LookupError: no such kernel" in native._works(fails)
    assert not native._works(lambda: None)


def test_an_ordinary_user_measures_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root has another user to measure as."""

    def part(quick: bool) -> Iterator[Row]:
        yield Row(name="one", value=float(quick))

    monkeypatch.setattr(ordinary.os, "geteuid", lambda: 1000)
    assert [row.name for row in ordinary.both(part)(True)] == ["one"]
