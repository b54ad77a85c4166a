"""What the meter of a plugin is told of each call, and what one without a meter does."""

from __future__ import annotations

from typing import Any

import pytest
from test_broker_calls import SPEC, Notes, NoteScope

from fastness.broker.counts import Counts
from fastness.broker.gate import Gate
from fastness.capability import CallContext
from fastness.errors import BackendError, QuotaExceeded
from fastness.runs import DenialCode


class Meter:
    """Writes down what it is told."""

    cost = 42

    def __init__(self, error: Exception | None = None) -> None:
        self.told: list[Any] = []
        self.error = error
        self.free = True

    def take(self) -> bool:
        return self.free

    def give_back(self) -> None:
        self.told.append("give back")

    def admit(self) -> None:
        if self.error is not None:
            raise self.error
        self.told.append("admit")

    def refused(self, kind: str) -> None:
        self.told.append(("refused", kind))

    def over(self, kind: str, **more: Any) -> None:
        self.told.append((kind, more))

    def spend(self, cost: int) -> None:
        self.told.append(("spend", cost))


def counts(meter: Any) -> Counts:
    return Counts(Gate({"notes": NoteScope()}, {"notes": SPEC}, {"notes": Notes(print)}), meter)


def test_without_a_meter_nothing_is_counted_and_all_is_let_through() -> None:
    one = counts(None)
    assert one.take()
    one.admit("notes")
    one.give_back()
    one.over("notes", "quota")
    one.spent(5)
    assert one.cost == 0


def test_a_call_is_taken_or_admitted_as_the_meter_says() -> None:
    """Taken at once where that needs no look at a ledger; given back where it is not made; cost and all."""
    meter = Meter()
    one = counts(meter)
    assert one.take()
    meter.free = False
    assert not one.take()
    one.give_back()
    one.admit("notes")
    one.spent(7)
    assert meter.told == ["give back", "admit", ("spend", 7)]
    assert one.cost == 42


@pytest.mark.parametrize(("kind", "counted"), [("notes", "notes"), ("a word of the guest's", "")])
def test_a_call_that_a_quota_does_not_leave(kind: str, counted: str) -> None:
    """It is refused, and counted as that under its kind; what is not in the policy is under none."""
    meter = Meter(QuotaExceeded("no more"))
    with pytest.raises(QuotaExceeded):
        counts(meter).admit(kind)
    assert meter.told == [("refused", counted)]


def test_a_call_that_cannot_be_counted() -> None:
    """That is no refusal, and whoever asked learns of it."""
    meter = Meter(BackendError("counting", "the disk is full"))
    with pytest.raises(BackendError):
        counts(meter).admit("notes")
    assert meter.told == []


def test_a_call_that_is_over() -> None:
    """What it used, and whether it was refused, which each code of a refusal says and no other."""
    meter = Meter()
    one = counts(meter)
    one.over("notes", "failed")
    one.over("else", DenialCode.NOT_GRANTED.value)
    context = CallContext(plugin="p", owner="o", run="r", scope=NoteScope(), deadline=0.0)
    context.bytes_in, context.bytes_out, context.cpu_s, context.cost = 1, 2, 3.0, 4
    one.over("notes", "", context)
    one.over("notes", DenialCode.OUTSIDE.value, context)
    used = {"bytes_in": 1, "bytes_out": 2, "cpu_s": 3.0, "cost": 4}
    assert meter.told == [
        ("notes", {"refused": False}), ("", {"refused": True}),
        ("notes", {**used, "refused": False}), ("notes", {**used, "refused": True}),
    ]  # fmt: skip
