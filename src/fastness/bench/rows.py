"""A measured figure, what it is compared with, and what is promised of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from time import perf_counter

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """
    One line of the table.

    ``value`` and ``p99`` are in ``unit``; ``ratio`` is to ``against``; ``promise`` bounds ``judged`` (the ratio, or
    the value, or the 99th percentile), from above unless ``at_least``.  ``note`` says why a figure is missing.

    ``pace`` is how much longer than on the machine of the promise a bare interpreter takes here, where that counts: a
    time may be so many times as long, and a rate as much lower (:mod:`fastness.bench.pace`).
    """

    name: str
    value: float | None = None
    p99: float | None = None
    unit: str = "ms"
    against: str = ""
    ratio: float | None = None
    judged: float | None = None
    promise: float | None = None
    at_least: bool = False
    pace: float = 1.0
    note: str = ""

    @property
    def bound(self) -> float | None:
        """What ``judged`` is held against on this machine."""
        if self.promise is None:
            return None
        return self.promise / self.pace if self.at_least else self.promise * self.pace

    @property
    def kept(self) -> bool | None:
        """Whether the promise holds; None where there is none or nothing was measured."""
        bound = self.bound
        if bound is None or self.judged is None:
            return None
        return self.judged >= bound if self.at_least else self.judged <= bound


def times(action: Callable[[], object], count: int, warm: int = 3) -> list[float]:
    """Milliseconds of each of ``count`` calls, after ``warm`` that do not count."""
    for _ in range(warm):
        action()
    found = []
    for _ in range(count):
        began = perf_counter()
        action()
        found.append((perf_counter() - began) * 1e3)
    return found


def interleaved(actions: dict[str, Callable[[], object]], rounds: int, each: int) -> dict[str, list[float]]:
    """
    Times of several actions in turn, so that a slow minute of the machine meets all of them alike.
    """
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            found[name] += times(action, each, warm=1)
    return found


def median(values: Sequence[float]) -> float:
    """The 50th percentile."""
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios."""
    return statistics.geometric_mean(values)
